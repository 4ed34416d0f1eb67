import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from twoclock.errors import SettingsError
from twoclock.trainer.tasks import Addition, Sorting, held_out, make_task, skip_held_out, verify


@given(st.integers(1, 6).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, 10**n - 1))))
def test_sorting_answers_are_the_sorted_prompt(case):
    """The answer is the prompt's digits in ascending order."""
    n, number = case
    prompts, answers = Sorting(n).problems(torch.tensor([number]))
    assert prompts[0].tolist() == [int(c) for c in f"{number:0{n}d}"] + [10]
    assert answers[0].tolist() == sorted(prompts[0, :-1].tolist())


@given(st.integers(1, 4).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, 100**n - 1))))
def test_addition_answers_are_the_sum_lowest_digit_first(case):
    """Read backwards, the answer is the sum of the two numbers of the prompt."""
    n, number = case
    prompts, answers = Addition(n).problems(torch.tensor([number]))
    left, right = (
        int(part) for part in "".join("0123456789=+"[i] for i in prompts[0])[:-1].split("+")
    )
    assert int("".join(str(d) for d in answers[0].flip(0).tolist())) == left + right
    assert prompts.shape[1] == Addition(n).prompt_length
    assert answers.shape[1] == Addition(n).answer_length


@given(st.lists(st.integers(0, 9), min_size=4, max_size=4), st.integers(0, 3), st.integers(1, 9))
def test_verify_accepts_the_answer_only(answer, place, shift):
    """The right answer scores 1, and one wrong token anywhere scores 0."""
    right = torch.tensor(answer)
    wrong = right.clone()
    wrong[place] = (wrong[place] + shift) % 10
    assert verify(torch.stack([right, wrong]), right).tolist() == [1.0, 0.0]


@given(st.integers(1, 40), st.integers(0, 2**31))
def test_training_problems_are_all_but_the_held_out_ones(n, seed):
    """Ranks map one to one onto the ids that are not held out."""
    task = Sorting(2)
    held = held_out(task, n, seed)
    ids = skip_held_out(torch.arange(task.count - n), held)
    assert sorted(ids.tolist() + held.tolist()) == list(range(task.count))


def test_held_out_refuses_more_than_half_of_the_problems():
    """A validation set that would eat the training problems is refused."""
    with pytest.raises(SettingsError, match="eval_size"):
        held_out(Sorting(1), 6, 0)


def test_unknown_task_is_named_with_the_known_ones():
    """A misspelt task says what there is."""
    with pytest.raises(SettingsError, match="must be one of addition, sorting"):
        make_task("sort", 3)
