"""transformers: forward and backward of BERT, GPT-2 and Llama, generation, and files; from one seed on both."""

from __future__ import annotations

import os
import runpy
import tempfile

import torch
from transformers import (
    BertConfig,
    BertForMaskedLM,
    BertForSequenceClassification,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    get_linear_schedule_with_warmup,
)

results = runpy.run_path(os.path.join(os.path.dirname(__file__), "_models.py"))["results"]

WORDS = 50


def bert(kind: type = BertForMaskedLM, **options: object) -> torch.nn.Module:
    return kind(BertConfig(vocab_size=WORDS, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64,
                           max_position_embeddings=32, **options))  # fmt: skip


def gpt2(**options: object) -> torch.nn.Module:
    return GPT2LMHeadModel(GPT2Config(vocab_size=WORDS, n_positions=32, n_embd=32, n_layer=2, n_head=4, bos_token_id=0,
                                      eos_token_id=1, **options))  # fmt: skip


def llama(**options: object) -> torch.nn.Module:
    return LlamaForCausalLM(LlamaConfig(vocab_size=WORDS, hidden_size=32, intermediate_size=64, num_hidden_layers=2,
                                        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64,
                                        **options))  # fmt: skip


def tokens(rows: int = 2, length: int = 12) -> torch.Tensor:
    return torch.randint(2, WORDS, (rows, length))


def passed(model: torch.nn.Module, train: bool = True, **inputs: torch.Tensor) -> dict[str, object]:
    """A pass forward and backward, the last positions of the second row left out."""
    model.train(train)
    ids = tokens()
    mask = torch.ones_like(ids)
    mask[1, -3:] = 0
    inputs_and_labels = {"input_ids": ids, "attention_mask": mask, "labels": ids.masked_fill(mask == 0, -100), **inputs}
    found = model(**inputs_and_labels, output_hidden_states=True)
    outputs = {"logits": found.logits, **{f"layer {i}": x for i, x in enumerate(found.hidden_states)}}
    return results(model, outputs, found.loss)


def generated(model: torch.nn.Module, **options: object) -> object:
    return model.eval().generate(tokens(length=5), max_new_tokens=8, pad_token_id=0, **options)


def stored(model: torch.nn.Module, safe: bool) -> object:
    """Logits of a model that was saved and loaded again."""
    model.eval()
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder, **({} if safe else {"safe_serialization": False}))
        again = type(model).from_pretrained(folder)
        again.eval()
    ids = tokens()
    with torch.no_grad():
        return [model(ids).logits, again(ids).logits]


def trained(model: torch.nn.Module, steps: int = 6) -> list[float]:
    """Losses of a training with AdamW, clipped gradients and a schedule with warm-up."""
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    schedule = get_linear_schedule_with_warmup(optimizer, 2, steps)
    losses = []
    for _ in range(steps):
        ids = tokens(4)
        loss = model(input_ids=ids, labels=ids).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


def with_trainer() -> list[object]:
    """Losses, metrics and files of transformers' own Trainer, with evaluation and checkpoints."""
    from transformers import Trainer, TrainingArguments, set_seed

    set_seed(7)
    model = bert(BertForSequenceClassification, num_labels=3)
    rows = [{"input_ids": torch.randint(2, WORDS, (8,)), "labels": i % 3} for i in range(24)]
    with tempfile.TemporaryDirectory() as folder:
        settings = TrainingArguments(
            folder, num_train_epochs=2, per_device_train_batch_size=4, learning_rate=1e-3, logging_steps=1, save_steps=4,
            eval_strategy="epoch", report_to=[], use_cpu=True, disable_tqdm=True,
        )  # fmt: skip
        trainer = Trainer(model=model, args=settings, train_dataset=rows, eval_dataset=rows[:8])
        done = trainer.train()
        history = [entry.get("loss", entry.get("eval_loss")) for entry in trainer.state.log_history]
        return [history, done.training_loss, sorted(os.listdir(folder))]


CASES = {
    "BERT": lambda: passed(bert()),
    "BERT, evaluation": lambda: passed(bert(), train=False),
    "BERT, eager attention": lambda: passed(bert(attn_implementation="eager")),
    "BERT, classification": lambda: passed(
        bert(BertForSequenceClassification, num_labels=3), labels=torch.tensor([0, 2])
    ),
    "GPT-2": lambda: passed(gpt2()),
    "GPT-2, evaluation": lambda: passed(gpt2(), train=False),
    "GPT-2, eager attention": lambda: passed(gpt2(attn_implementation="eager")),
    "Llama": lambda: passed(llama()),
    "Llama, eager attention": lambda: passed(llama(attn_implementation="eager")),
    "Llama, tied and biased": lambda: passed(llama(tie_word_embeddings=True, attention_bias=True)),
    "GPT-2 generates": lambda: generated(gpt2(), do_sample=False),
    "Llama generates": lambda: generated(llama(), do_sample=False),
    "Llama samples": lambda: generated(llama(), do_sample=True, top_k=10, temperature=0.8),
    "GPT-2 searches with beams": lambda: generated(gpt2(), do_sample=False, num_beams=3),
    "BERT from safetensors": lambda: stored(bert(), True),
    "Llama from safetensors": lambda: stored(llama(), True),
    "BERT trained": lambda: trained(bert()),
    "GPT-2 trained": lambda: trained(gpt2()),
    "Llama trained": lambda: trained(llama()),
    "Trainer": lambda: with_trainer(),
}
