"""The one conductor: specs, plan, golden answers, deployments, arms, and the record of a run."""
