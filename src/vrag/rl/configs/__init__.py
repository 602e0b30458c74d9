"""Configurations of verl: `--config-path pkg://vrag.rl.configs --config-name NAME`."""
