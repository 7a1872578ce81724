"""The whole of it: `cdk synth`, `cdk deploy -c code=build/lambda -c image=registry/shop:1.0.0`."""

from __future__ import annotations

from aws_cdk import App
from duebox_cdk.stack import DueboxStack

app = App()
DueboxStack(app, "Duebox")
app.synth()
