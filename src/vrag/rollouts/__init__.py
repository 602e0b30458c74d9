"""Many runs at once, and the folder that keeps them."""
