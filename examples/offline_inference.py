"""Answers a few prompts with the small checkpoint that comes with the package.

    pip install .
    python examples/offline_inference.py [MODEL]
"""

import sys

import thalweg


def main() -> None:
    # A folder or a Hugging Face name; None is the small checkpoint. Keywords are the engine's options.
    llm = thalweg.LLM(model=sys.argv[1] if len(sys.argv) > 1 else None, max_sequences=8)

    # Texts are completed as they stand. Greedy: the same answer every time.
    greedy = thalweg.SamplingParams(temperature=0, max_tokens=32)
    for output in llm.generate(["The opposite of", "Once upon a time"], greedy):
        print(f"{output.prompt!r} -> {output.outputs[0].text!r}")

    # Conversations go through the model's chat encoding. With a seed, sampling repeats itself too;
    # n answers of one prompt share its prefill.
    sampled = thalweg.SamplingParams(n=2, temperature=0.6, top_p=0.95, seed=7, max_tokens=64)
    question = [{"role": "user", "content": "What does courage mean?"}]
    for answer in llm.chat(question, sampled)[0].outputs:
        print(f"{answer.index}: {answer.text.strip()!r} ({answer.finish_reason})")

    # A request that cannot be answered tells so, and does not disturb the others.
    good, bad = llm.generate(["Hello", "Hello"], [greedy, thalweg.SamplingParams(temperature=-1)])
    print(f"{good.outputs[0].finish_reason}, {bad.error}")


if __name__ == "__main__":
    main()
