"""Parameters, outputs and the progress bar without a model: defaults, aliases, pickling, the line."""

import pickle
import unittest

import thalweg
from thalweg import SamplingParams, errors, outputs, progress


class Values(unittest.TestCase):
    def test_seq_seed_is_seed(self):
        params = SamplingParams(seq_seed=4)
        self.assertEqual((params.seed, params.seq_seed), (4, 4))
        params.seq_seed = 9
        self.assertEqual(params.seed, 9)
        self.assertIsNone(SamplingParams().seed)

    def test_defaults_are_those_of_vllm(self):
        params = SamplingParams()
        self.assertEqual((params.n, params.temperature, params.top_p), (1, 1.0, 1.0))
        self.assertEqual(params.max_tokens, 16)
        self.assertIsNone(SamplingParams(max_tokens=None).max_tokens)

    def test_values_can_be_pickled_and_compared(self):
        params = SamplingParams(n=2, stop=["a"], logit_bias={3: 1.5})
        self.assertEqual(pickle.loads(pickle.dumps(params)), params)

    def test_exceptions_are_one_family(self):
        for name in ("invalid_argument", "not_found", "io", "resource_exhausted", "internal"):
            error = errors.make(name, "what to do")
            self.assertIsInstance(error, thalweg.Error)
            self.assertEqual((error.code, str(error)), (name, "what to do"))
        self.assertIsInstance(errors.make("invalid_argument", ""), ValueError)
        self.assertIsInstance(errors.make("io", ""), OSError)

    def test_the_line_of_progress(self):
        line = progress.line(25, 100, 500, 10.0)
        self.assertIn("25/100 [00:10<00:30, 50 tok/s]", line)
        self.assertIn("0/100 [00:00<?", progress.line(0, 100, 0, 0.0))
        self.assertIn("1:01:01", progress.line(1, 1, 1, 3661.0))

    def test_version_is_that_of_the_library(self):
        self.assertRegex(thalweg.__version__, r"^\d+\.\d+\.\d+$")
        self.assertEqual(outputs.Logprob(-1.0, 1, "a").rank, 1)


if __name__ == "__main__":
    unittest.main()
