"""The Triton kernel that plays several episodes of a target over the same rows, and keeps no record of decisions.

A program plays sixteen episodes side by side, a step of each at a time, so that their products are matrices.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from jaxtyping import Float
from torch import Tensor

from gdpnet.selection.engines.triton_kernel import (
    _GOLDEN,
    _START,
    _gumbel,
    _mix,
    _padded,
    _sigmoid,
    _signed,
    _uniform,
)
from gdpnet.selection.episodes import Episodes, Met, Tables
from gdpnet.selection.play import Play
from gdpnet.selection.policy import SCORE_BOUND, Policy

ROWS = 16
"""Episodes that a program plays side by side."""

TILE = 8
"""Candidates of each that are scored at once."""

PRECISION = "tf32x3"
"""How scores are multiplied: three products of tensor cores that together are as good as one in single precision."""

WARPS = 4

_COPY_FOLD = 3 * _GOLDEN & 0xFFFFFFFF
"""What `draws.keys` adds to the copy of a target, the third of its parts."""


def launch_shared(
    policy: Policy,
    tables: Tables,
    episodes: Episodes,
    met: Met,
    half: Float[Tensor, "candidates first"],
    play: Play,
    copies: int,
    groups: list[tuple[int, int, int]],
) -> tuple[Float[Tensor, "copies candidates"], Tensor]:
    """Play all episodes as often as asked; return keep probabilities and what was kept, a row a copy."""
    candidates = episodes.row.numel()
    probability = half.new_empty(copies, candidates)
    kept = torch.empty(copies, candidates, dtype=torch.int8, device=half.device)
    width, classes = tables.own.shape[1], tables.head_bias.shape[1]
    first, second = policy.hidden_weight.shape
    extras = policy.target_weight[width:] if policy.extras else policy.target_weight[:2]
    heads, ending_half = tables.heads.contiguous(), policy.ending_half()
    for start, end, size in groups:
        _play_side_by_side[(triton.cdiv((end - start) * copies, ROWS),)](
            tables.own, tables.bias, heads, tables.head_bias,
            episodes.target_row, episodes.offsets, episodes.key, episodes.ending_key,
            met.given, half, met.beliefs,
            policy.target_weight, extras, policy.first_bias,
            policy.agreement_weight if policy.extras else policy.first_bias,
            policy.hidden_weight, policy.hidden_bias, policy.score_weight, policy.score_bias, ending_half,
            probability, kept,
            start, end, copies, candidates,
            WIDTH=width, CLASSES=classes, FIRST=first, SECOND=second,
            ROWS=ROWS, TILES=max(size // TILE, 1), TILE=TILE,
            WIDTH_P=_padded(width), CLASSES_P=_padded(classes), FIRST_P=_padded(first), SECOND_P=_padded(second),
            GREEDY=play.greedy, LEARNED=play.learned_order, CAN_END=play.can_end, EXTRAS=policy.extras,
            SELF_WEIGHT=tables.self_weight, BOUND=SCORE_BOUND, PRECISION=PRECISION,
            GOLDEN=_signed(_GOLDEN), START=_signed(_START), FOLD=_signed(_COPY_FOLD),
            num_warps=WARPS,
        )  # fmt: skip
    return probability, kept


# a number that happens to be one or a multiple of sixteen is no reason to compile anew
@triton.jit(do_not_specialize=["first_episode", "last_episode", "copies", "candidates"])
def _play_side_by_side(
    own_ptr, bias_ptr, heads_ptr, head_bias_ptr,
    row_ptr, offsets_ptr, key_ptr, ending_key_ptr,
    given_ptr, half_ptr, beliefs_ptr,
    target_weight_ptr, extras_ptr, first_bias_ptr, agreement_ptr,
    hidden_weight_ptr, hidden_bias_ptr, score_weight_ptr, score_bias_ptr, ending_half_ptr,
    probability_ptr, kept_ptr,
    first_episode, last_episode, copies, candidates,
    WIDTH: tl.constexpr, CLASSES: tl.constexpr, FIRST: tl.constexpr, SECOND: tl.constexpr,
    ROWS: tl.constexpr, TILES: tl.constexpr, TILE: tl.constexpr,
    WIDTH_P: tl.constexpr, CLASSES_P: tl.constexpr, FIRST_P: tl.constexpr, SECOND_P: tl.constexpr,
    GREEDY: tl.constexpr, LEARNED: tl.constexpr, CAN_END: tl.constexpr, EXTRAS: tl.constexpr,
    SELF_WEIGHT: tl.constexpr, BOUND: tl.constexpr, PRECISION: tl.constexpr,
    GOLDEN: tl.constexpr, START: tl.constexpr, FOLD: tl.constexpr,
):  # fmt: skip
    """Play some episodes; a row that ends before the others stays as it is, as its state no longer moves."""
    BLOCK: tl.constexpr = TILES * TILE
    number = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    episode = first_episode + number // copies
    copy = (number % copies).to(tl.int32)
    plays = episode < last_episode
    start = tl.load(offsets_ptr + episode, mask=plays, other=0)
    length = (tl.load(offsets_ptr + episode + 1, mask=plays, other=0) - start).to(tl.int32)
    longest = tl.max(length, axis=0)
    row = tl.load(row_ptr + episode, mask=plays, other=0)

    column = tl.arange(0, WIDTH_P)
    first = tl.arange(0, FIRST_P)
    second = tl.arange(0, SECOND_P)
    label = tl.arange(0, CLASSES_P)
    place = tl.arange(0, BLOCK)
    in_row, in_first, in_second, in_label = column < WIDTH, first < FIRST, second < SECOND, label < CLASSES
    inside = place[None, :] < length[:, None]

    own = tl.load(own_ptr + row[:, None] * WIDTH + column[None, :], mask=in_row[None, :], other=0.0)
    bias = tl.load(bias_ptr + column, mask=in_row, other=0.0)
    head_bias = tl.load(head_bias_ptr + label, mask=in_label, other=-float("inf"))
    first_bias = tl.load(first_bias_ptr + first, mask=in_first, other=0.0)
    hidden_bias = tl.load(hidden_bias_ptr + second, mask=in_second, other=0.0)
    score_weight = tl.load(score_weight_ptr + second, mask=in_second, other=0.0)
    score_bias = tl.load(score_bias_ptr)
    fold = _mix(copy + FOLD)
    key = tl.load(key_ptr + start[:, None] + place[None, :], mask=inside, other=0)
    key = _mix(key + fold[:, None])
    ending_key = _mix(tl.load(ending_key_ptr + episode, mask=plays, other=0) + fold)

    alive = inside
    kept_ones = place[None, :] < tl.zeros((ROWS, 1), tl.int32)
    scores = tl.zeros((ROWS, BLOCK), tl.float32)
    total = tl.zeros((ROWS, WIDTH_P), tl.float32)
    kept_count = tl.zeros((ROWS,), tl.float32)
    ending = tl.zeros((ROWS,), tl.float32)
    remaining = length
    step = 0
    while tl.max(remaining, axis=0) > 0:
        # always zero, which the compiler cannot know: matrices and where they lie are not held in registers
        again = (step >> 30) * 16
        across, down, out, which = column + again, first + again, second + again, label + again
        # what the targets are with what they kept, and what their classifier believes of them
        if SELF_WEIGHT:
            state = tl.maximum(total / tl.maximum(kept_count, 1e-6)[:, None] + own + bias[None, :], 0.0)
        else:
            state = tl.maximum((own + total) / (1.0 + kept_count)[:, None] + bias[None, :], 0.0)
        heads = tl.load(
            heads_ptr + across[:, None] * CLASSES + which[None, :],
            mask=(across < WIDTH)[:, None] & (which < CLASSES)[None, :],
            other=0.0,
        )
        logits = tl.dot(state, heads, input_precision=PRECISION) + head_bias[None, :]
        chance = tl.exp(logits - tl.max(logits, axis=1)[:, None])
        belief = chance / tl.sum(chance, axis=1)[:, None]
        target_weight = tl.load(
            target_weight_ptr + across[:, None] * FIRST + down[None, :],
            mask=(across < WIDTH)[:, None] & (down < FIRST)[None, :],
            other=0.0,
        )
        target_half = tl.dot(state, target_weight, input_precision=PRECISION) + first_bias[None, :]
        if EXTRAS:
            sure = tl.load(extras_ptr + first, mask=in_first, other=0.0)
            many = tl.load(extras_ptr + FIRST + first, mask=in_first, other=0.0)
            target_half += tl.max(belief, axis=1)[:, None] * sure[None, :]
            target_half += tl.log(1.0 + kept_count)[:, None] * many[None, :]
        if CAN_END:
            ending_half = tl.load(ending_half_ptr + first, mask=in_first, other=0.0)
            end_layer = tl.maximum(target_half + ending_half[None, :], 0.0)
            hidden_weight = tl.load(
                hidden_weight_ptr + down[:, None] * SECOND + out[None, :],
                mask=(down < FIRST)[:, None] & (out < SECOND)[None, :],
                other=0.0,
            )
            end_hidden = tl.dot(end_layer, hidden_weight, input_precision=PRECISION)
            end_hidden = tl.maximum(end_hidden + hidden_bias[None, :], 0.0)
            ending = tl.sum(end_hidden * score_weight[None, :], axis=1) + score_bias
            ending = tl.minimum(tl.maximum(ending, -BOUND), BOUND)
        tile = 0
        while tile * TILE < longest:
            inner = down + (tile >> 30) * 16
            some = tile * TILE + tl.arange(0, TILE)
            there = some[None, :] < length[:, None]
            at = start[:, None] + some[None, :]
            layer = tl.load(
                half_ptr + at[:, :, None] * FIRST + inner[None, None, :],
                mask=there[:, :, None] & (inner < FIRST)[None, None, :],
                other=0.0,
            )
            layer += target_half[:, None, :]
            if EXTRAS:
                other = tl.load(
                    beliefs_ptr + at[:, :, None] * CLASSES + which[None, None, :],
                    mask=there[:, :, None] & (which < CLASSES)[None, None, :],
                    other=0.0,
                )
                agree = tl.sum(other * belief[:, None, :], axis=2)
                agreement = tl.load(agreement_ptr + first, mask=in_first, other=0.0)
                layer += agree[:, :, None] * agreement[None, None, :]
            flat = tl.reshape(tl.maximum(layer, 0.0), (ROWS * TILE, FIRST_P))
            hidden_weight = tl.load(
                hidden_weight_ptr + inner[:, None] * SECOND + out[None, :],
                mask=(inner < FIRST)[:, None] & (out < SECOND)[None, :],
                other=0.0,
            )
            hidden = tl.dot(flat, hidden_weight, input_precision=PRECISION)
            hidden = tl.maximum(hidden + hidden_bias[None, :], 0.0)
            score = tl.sum(hidden * score_weight[None, :], axis=1) + score_bias
            score = tl.minimum(tl.maximum(score, -BOUND), BOUND)
            spread = tl.broadcast_to(tl.reshape(score, (ROWS, 1, TILE)), (ROWS, TILES, TILE))
            here_now = alive & (place // TILE == tile)[None, :]
            scores = tl.where(here_now, tl.reshape(spread, (ROWS, BLOCK)), scores)
            tile += 1

        contest = scores if LEARNED else tl.zeros_like(scores)
        if not (GREEDY and LEARNED):
            contest += _gumbel(key, 2 * step, GOLDEN, START)
        contest = tl.where(alive, contest, -float("inf"))
        runs = remaining > 0
        draws = runs
        if CAN_END:
            end_contest = ending
            if not GREEDY:
                end_contest += _gumbel(ending_key, 2 * step, GOLDEN, START)
            ends = runs & (end_contest > tl.max(contest, axis=1))
            draws = runs & (ends == 0)
            remaining = tl.where(ends, 0, remaining)
        drawn = tl.argmax(contest, axis=1, tie_break_left=True)
        here = (place[None, :] == drawn[:, None]) & draws[:, None]
        score = tl.sum(tl.where(here, scores, 0.0), axis=1)
        if GREEDY:
            kept = draws & (score > 0)
        else:
            drawn_key = tl.sum(tl.where(here, key, 0), axis=1)
            kept = draws & (_uniform(drawn_key, 2 * step + 1, GOLDEN, START) < _sigmoid(score))
        alive = alive & (here == 0)
        kept_ones = kept_ones | (here & kept[:, None])
        remaining = tl.where(draws, remaining - 1, remaining)
        grows = kept & (remaining > 0)
        given = given_ptr + (start + drawn)[:, None] * WIDTH + across[None, :]
        total += tl.load(given, mask=grows[:, None] & (across < WIDTH)[None, :], other=0.0)
        kept_count += grows.to(tl.float32)
        step += 1
    chance_kept = _sigmoid(scores)
    if CAN_END:
        chance_kept = tl.where(alive, chance_kept * _sigmoid(scores - ending[:, None]), chance_kept)
    slot = copy.to(tl.int64)[:, None] * candidates + start[:, None] + place[None, :]
    tl.store(probability_ptr + slot, chance_kept, mask=inside)
    tl.store(kept_ptr + slot, kept_ones.to(tl.int8), mask=inside)
