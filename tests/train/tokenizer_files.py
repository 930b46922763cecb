"""Small tokenizers, trained by Hugging Face's library."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.helpers import require

REVIEWS = [("the soup was good and warm", "yes"), ("bad bread, never again", "no"), ("good wine, warm room", "yes"),
           ("cold soup and bad wine", "no"), ("warm bread was good", "yes"), ("the room was cold, bad", "no")]  # fmt: skip
TEXT = "".join(f"{text}: {word}\n" for text, word in REVIEWS * 30)


def byte_level(path: Path, text: str = TEXT, size: int = 300) -> Any:
    """Save a byte-level BPE tokenizer, as that of GPT-2, and return the library's object."""
    library = require("tokenizers")
    tokenizer = library.Tokenizer(library.models.BPE())
    tokenizer.pre_tokenizer = library.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = library.decoders.ByteLevel()
    alphabet = library.pre_tokenizers.ByteLevel.alphabet()
    trainer = library.trainers.BpeTrainer(
        vocab_size=size, initial_alphabet=alphabet, special_tokens=["<|endoftext|>"], show_progress=False
    )
    tokenizer.train_from_iterator([text], trainer)
    tokenizer.save(str(path))
    return tokenizer


def word_piece(path: Path, text: str = TEXT) -> Any:
    """Save a WordPiece tokenizer with [CLS] and [SEP], as that of BERT, and return the library's object."""
    library = require("tokenizers")
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
    tokenizer = library.Tokenizer(library.models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = library.normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = library.pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = library.decoders.WordPiece()
    trainer = library.trainers.WordPieceTrainer(vocab_size=90, special_tokens=special, show_progress=False)
    tokenizer.train_from_iterator([text], trainer)
    tokenizer.post_processor = library.processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair=None, special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    tokenizer.save(str(path))
    return tokenizer
