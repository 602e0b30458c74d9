"""Convert questions to the parquet of trainers: `python scripts/hf_dataset_convert.py`."""

from vrag.compat.scripts import convert_dataset

if __name__ == "__main__":
    convert_dataset(
        ["data/SlideVQA_test.json", "data/MMLongDoc.json", "data/SlideBench.json"],
        ["slidevqa_test", "mmlongdoc", "vidoseek"],
        "overall_test",
    )
    convert_dataset(["data/SlideVQA_train.json"], ["slidevqa_train"], "overall_train", split="train")
