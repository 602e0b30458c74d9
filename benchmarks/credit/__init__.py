"""The study of credit: does graph-guided policy optimisation learn faster than whole-trajectory GRPO?"""
