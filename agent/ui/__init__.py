"""The page of `ingot ui`: onboarding and review of data sets in a browser on this machine."""
