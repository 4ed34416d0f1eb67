import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from twoclock.errors import SettingsError
from twoclock.trainer.tasks import TASKS, counted, held_out, make_task, skip_held_out
from twoclock.trainer.tasks.addition import Addition
from twoclock.trainer.tasks.base import END
from twoclock.trainer.tasks.brackets import Brackets
from twoclock.trainer.tasks.chain import Chain
from twoclock.trainer.tasks.sorting import Sorting


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
def test_sorting_rewards_the_answer_only(answer, place, shift):
    """The right answer scores 1, and one wrong token anywhere scores 0."""
    right = torch.tensor(answer)
    wrong = right.clone()
    wrong[place] = (wrong[place] + shift) % 10
    assert Sorting(4).rewards(right, right, torch.stack([right, wrong])).tolist() == [1.0, 0.0]


@given(st.integers(2, 10), st.lists(st.integers(0, 9), min_size=1, max_size=6))
def test_chain_answers_are_running_sums(modulus, terms):
    """Every answer token is the sum of the terms so far, modulo the number of symbols."""
    terms = [t % modulus for t in terms]
    number = sum(t * modulus**i for i, t in enumerate(reversed(terms)))
    prompts, answers = Chain(len(terms), modulus).problems(torch.tensor([number]))
    assert prompts[0, :-1].tolist() == terms
    assert answers[0].tolist() == [sum(terms[: i + 1]) % modulus for i in range(len(terms))]


def plainly_balanced(prompt, response):
    """Close a prompt with a list as stack, one bracket at a time."""
    stack = []
    for token in prompt:
        if token % 2 == 0:
            stack.append(token)
        else:
            assert stack.pop() == token - 1
    for token in response:
        if token == END:
            return not stack
        if token > 9:
            return False
        if token % 2 == 0:
            stack.append(token)
        elif not stack or stack.pop() != token - 1:
            return False
    return False


@pytest.mark.parametrize(("n", "symbols"), [(1, 2), (4, 4), (5, 6), (6, 2)])
def test_bracket_prompts_are_all_prefixes_once_and_answers_close_them(n, symbols):
    """Ids run over all different prefixes; the shortest answer is right."""
    task = Brackets(n, symbols)
    prompts, answers = task.problems(torch.arange(task.count))
    assert len({tuple(p) for p in prompts.tolist()}) == task.count
    assert int(prompts[:, :-1].max()) == (symbols - 1 if n > 1 else symbols - 2)
    assert bool((task.rewards(prompts, answers, answers) == 1).all())


@given(st.integers(0, 2**31), st.lists(st.integers(0, 11), min_size=6, max_size=6))
def test_any_completion_that_balances_is_right_and_no_other(number, tokens):
    """The verifier agrees with a plain stack, on random responses and on those that it accepts."""
    task = Brackets(5, 4)
    prompts, answers = task.problems(torch.tensor([number % task.count]))
    tail = answers[0].tolist()
    for response in (tokens, [0, 1, *tail][:6], [*tail[:2], *tokens[:4]]):
        response = [t if t in (*range(4), END, 11) else END for t in response]
        reward = task.rewards(prompts[0], answers[0], torch.tensor(response))
        assert bool(reward) is plainly_balanced(prompts[0, :-1].tolist(), response)


def test_odd_symbols_make_no_brackets():
    """A bracket type takes two tokens."""
    with pytest.raises(SettingsError, match="must be even"):
        Brackets(4, 5)


@pytest.mark.parametrize("name", sorted(TASKS))
@pytest.mark.parametrize("symbols", [2, 4, 10])
def test_every_task_keeps_its_word(name, symbols):
    """Sizes, tokens and rewards of random problems are as the task says."""
    task = make_task(name, 3, symbols)
    ids = torch.randint(task.count, (2, 50), generator=torch.Generator().manual_seed(0))
    prompts, answers = task.problems(ids)
    assert prompts.shape == (2, 50, task.prompt_length)
    assert answers.shape == (2, 50, task.answer_length)
    assert bool((task.rewards(prompts, answers, answers) == 1).all())
    content = answers[counted(answers, ends=task.ends) > 0]
    assert set(content.tolist()) <= {*range(task.tokens), *({END} if task.ends else ())}
    wrong = torch.full_like(answers, 11)
    assert bool((task.rewards(prompts, answers, wrong) == 0).all())


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
    with pytest.raises(SettingsError, match="must be one of addition, brackets, chain, sorting"):
        make_task("sort", 3)
