"""The Triton kernel that plays episodes: scores, draws, decisions and running means never leave the chip."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from jaxtyping import Bool, Float, Int
from torch import Tensor

from gdpnet.selection.episodes import Episodes, Met, Tables
from gdpnet.selection.play import ENDING, Play
from gdpnet.selection.policy import SCORE_BOUND, Policy

_TILE = 16
"""Candidates that are scored at once."""

_GOLDEN = 0x9E3779B9
_START = 0x7F4A7C15


@dataclass(frozen=True)
class Output:
    """What the kernel wrote; decision t of episode e lies at slot ``offsets[e] + e + t``."""

    candidate: Int[Tensor, "slots"]
    kept: Bool[Tensor, "slots"]
    score: Float[Tensor, "slots"]
    weight: Float[Tensor, "slots"]
    decisions: Int[Tensor, "episodes"]
    scores: Float[Tensor, "candidates"]
    ending: Float[Tensor, "episodes"]


def launch(
    policy: Policy,
    tables: Tables,
    episodes: Episodes,
    met: Met,
    half: Float[Tensor, "candidates first"],
    play: Play,
    groups: list[tuple[int, int, int]],
) -> Output:
    """Play all episodes, a launch for each run of like length."""
    count, candidates = episodes.count, episodes.row.numel()
    like = met.given
    out = Output(
        torch.full((candidates + count,), ENDING, device=like.device),
        torch.zeros(candidates + count, dtype=torch.bool, device=like.device),
        like.new_zeros(candidates + count),
        like.new_ones(candidates + count),
        torch.zeros(count, dtype=torch.long, device=like.device),
        like.new_zeros(candidates),
        like.new_zeros(count),
    )
    live = torch.ones(candidates, dtype=torch.int8, device=like.device)
    width, classes = tables.own.shape[1], tables.head_bias.shape[1]
    first, second = policy.hidden_weight.shape
    extras = policy.target_weight[width:] if policy.extras else policy.target_weight[:2]
    for start, end, size in groups:
        _play[(end - start,)](
            tables.own, tables.bias, tables.heads.contiguous(), tables.head_bias,
            episodes.target_row, episodes.offsets, episodes.key, episodes.ending_key,
            met.given, met.given if met.weight is None else met.weight, half, met.beliefs,
            policy.target_weight, extras, policy.first_bias,
            policy.agreement_weight if policy.extras else policy.first_bias,
            policy.hidden_weight, policy.hidden_bias, policy.score_weight, policy.score_bias,
            policy.ending_half(),
            out.candidate, out.kept, out.score, out.weight, out.decisions, out.scores, out.ending, live,
            start, tables.nodes,
            WIDTH=width, CLASSES=classes, FIRST=first, SECOND=second,
            BLOCK=size, TILE=_TILE,
            WIDTH_P=_padded(width), CLASSES_P=_padded(classes), FIRST_P=_padded(first), SECOND_P=_padded(second),
            GREEDY=play.greedy, LEARNED=play.learned_order, CAN_END=play.can_end, EXTRAS=policy.extras,
            SELF_WEIGHT=tables.self_weight, WEIGHTED=met.weight is not None, BOUND=SCORE_BOUND,
            GOLDEN=_signed(_GOLDEN), START=_signed(_START),
            num_warps=4,
        )  # fmt: skip
    return out


def _padded(size: int) -> int:
    """Return the size of a block that holds a vector; products want sixteen or more."""
    return max(16, triton.next_power_of_2(size))


def _signed(number: int) -> int:
    return number - (1 << 32) if number >= 1 << 31 else number


@triton.jit
def _mix(key):
    """Scramble as `draws.mix` does."""
    bits = key ^ ((key >> 16) & 0xFFFF)
    bits = bits * 0x45D9F3B
    bits = bits ^ ((bits >> 15) & 0x1FFFF)
    bits = bits * -0x61C88647
    return bits ^ ((bits >> 16) & 0xFFFF)


@triton.jit
def _uniform(key, counter, GOLDEN: tl.constexpr, START: tl.constexpr):
    """Draw as `draws.uniforms` does."""
    bits = _mix(key + (counter * GOLDEN + START).to(tl.int32))
    return (((bits >> 9) & 0x7FFFFF).to(tl.float32) + 0.5) * (1.0 / 0x800000)


@triton.jit
def _gumbel(key, counter, GOLDEN: tl.constexpr, START: tl.constexpr):
    return -tl.log(-tl.log(_uniform(key, counter, GOLDEN, START)))


@triton.jit
def _sigmoid(x):
    return 1.0 / (1.0 + tl.exp(-x))


@triton.jit
def _play(
    own_ptr, bias_ptr, heads_ptr, head_bias_ptr,
    row_ptr, offsets_ptr, key_ptr, ending_key_ptr,
    given_ptr, counted_ptr, half_ptr, beliefs_ptr,
    target_weight_ptr, extras_ptr, first_bias_ptr, agreement_ptr,
    hidden_weight_ptr, hidden_bias_ptr, score_weight_ptr, score_bias_ptr, ending_half_ptr,
    candidate_ptr, kept_ptr, score_ptr, weight_ptr, decisions_ptr, scores_ptr, ending_ptr, live_ptr,
    first_episode, nodes,
    WIDTH: tl.constexpr, CLASSES: tl.constexpr, FIRST: tl.constexpr, SECOND: tl.constexpr,
    BLOCK: tl.constexpr, TILE: tl.constexpr,
    WIDTH_P: tl.constexpr, CLASSES_P: tl.constexpr, FIRST_P: tl.constexpr, SECOND_P: tl.constexpr,
    GREEDY: tl.constexpr, LEARNED: tl.constexpr, CAN_END: tl.constexpr, EXTRAS: tl.constexpr,
    SELF_WEIGHT: tl.constexpr, WEIGHTED: tl.constexpr, BOUND: tl.constexpr,
    GOLDEN: tl.constexpr, START: tl.constexpr,
):  # fmt: skip
    """Play one episode."""
    episode = (first_episode + tl.program_id(0)).to(tl.int64)
    start = tl.load(offsets_ptr + episode)
    length = (tl.load(offsets_ptr + episode + 1) - start).to(tl.int32)
    row = tl.load(row_ptr + episode)
    member = row // nodes

    column = tl.arange(0, WIDTH_P)
    first = tl.arange(0, FIRST_P)
    second = tl.arange(0, SECOND_P)
    label = tl.arange(0, CLASSES_P)
    place = tl.arange(0, BLOCK)
    in_row, in_first, in_second, in_label = column < WIDTH, first < FIRST, second < SECOND, label < CLASSES
    inside = place < length

    own = tl.load(own_ptr + row * WIDTH + column, mask=in_row, other=0.0)
    bias = tl.load(bias_ptr + member * WIDTH + column, mask=in_row, other=0.0)
    heads = tl.load(
        heads_ptr + member * WIDTH * CLASSES + column[:, None] * CLASSES + label[None, :],
        mask=in_row[:, None] & in_label[None, :],
        other=0.0,
    )
    head_bias = tl.load(head_bias_ptr + member * CLASSES + label, mask=in_label, other=-float("inf"))
    first_bias = tl.load(first_bias_ptr + first, mask=in_first, other=0.0)
    hidden_weight = tl.load(
        hidden_weight_ptr + first[:, None] * SECOND + second[None, :],
        mask=in_first[:, None] & in_second[None, :],
        other=0.0,
    )
    hidden_bias = tl.load(hidden_bias_ptr + second, mask=in_second, other=0.0)
    score_weight = tl.load(score_weight_ptr + second, mask=in_second, other=0.0)
    score_bias = tl.load(score_bias_ptr)
    key = tl.load(key_ptr + start + place, mask=inside, other=0)
    ending_key = tl.load(ending_key_ptr + episode)

    total = tl.zeros((WIDTH_P,), tl.float32)
    kept_count = 0.0
    remaining = length
    step = 0
    ending = 0.0
    looks = True
    while remaining > 0:
        if looks:
            # what the target is with what it kept, and what its classifier believes of it
            if SELF_WEIGHT:
                state = tl.maximum(total / tl.maximum(kept_count, 1e-6) + own + bias, 0.0)
            else:
                state = tl.maximum((own + total) / (1.0 + kept_count) + bias, 0.0)
            logits = tl.sum(state[:, None] * heads, axis=0) + head_bias
            chance = tl.exp(logits - tl.max(logits, axis=0))
            belief = chance / tl.sum(chance, axis=0)
            target_weight = tl.load(
                target_weight_ptr + column[:, None] * FIRST + first[None, :],
                mask=in_row[:, None] & in_first[None, :],
                other=0.0,
            )
            target_half = tl.sum(state[:, None] * target_weight, axis=0) + first_bias
            if EXTRAS:
                sure = tl.load(extras_ptr + first, mask=in_first, other=0.0)
                many = tl.load(extras_ptr + FIRST + first, mask=in_first, other=0.0)
                target_half += tl.max(belief, axis=0) * sure + tl.log(1.0 + kept_count) * many
            if CAN_END:
                ending_half = tl.load(ending_half_ptr + first, mask=in_first, other=0.0)
                end_layer = tl.maximum(target_half + ending_half, 0.0)
                end_hidden = tl.maximum(tl.sum(end_layer[:, None] * hidden_weight, axis=0) + hidden_bias, 0.0)
                ending = tl.sum(end_hidden * score_weight, axis=0) + score_bias
                ending = tl.minimum(tl.maximum(ending, -BOUND), BOUND)
            begin = 0
            while begin < length:
                some = begin + tl.arange(0, TILE)
                there = some < length
                halves = tl.load(
                    half_ptr + (start + some)[:, None] * FIRST + first[None, :],
                    mask=there[:, None] & in_first[None, :],
                    other=0.0,
                )
                tile_layer = halves + target_half[None, :]
                if EXTRAS:
                    other = tl.load(
                        beliefs_ptr + (start + some)[:, None] * CLASSES + label[None, :],
                        mask=there[:, None] & in_label[None, :],
                        other=0.0,
                    )
                    agree = tl.sum(other * belief[None, :], axis=1)
                    agreement = tl.load(agreement_ptr + first, mask=in_first, other=0.0)
                    tile_layer += agree[:, None] * agreement[None, :]
                tile_hidden = tl.dot(tl.maximum(tile_layer, 0.0), hidden_weight, input_precision="ieee")
                tile_hidden = tl.maximum(tile_hidden + hidden_bias[None, :], 0.0)
                tile_score = tl.sum(tile_hidden * score_weight[None, :], axis=1) + score_bias
                tile_score = tl.minimum(tl.maximum(tile_score, -BOUND), BOUND)
                tile_alive = tl.load(live_ptr + start + some, mask=there, other=0)
                tl.store(scores_ptr + start + some, tile_score, mask=there & (tile_alive != 0))
                begin += TILE
            tl.debug_barrier()
        alive = tl.load(live_ptr + start + place, mask=inside, other=0) != 0
        scores = tl.load(scores_ptr + start + place, mask=inside, other=0.0)
        regret = scores if LEARNED else tl.zeros_like(scores)
        contest = regret
        if not (GREEDY and LEARNED):
            contest = regret + _gumbel(key, 2 * step, GOLDEN, START)
        contest = tl.where(alive, contest, -float("inf"))
        best = tl.max(contest, axis=0)
        weight = tl.sum(tl.where(alive, tl.exp(regret), 0.0), axis=0)
        ends = False
        if CAN_END:
            weight += tl.exp(ending)
            end_contest = ending
            if not GREEDY:
                end_contest = ending + _gumbel(ending_key, 2 * step, GOLDEN, START)
            ends = end_contest > best
        slot = start + episode + step
        tl.store(weight_ptr + slot, weight)
        looks = False
        if ends:
            tl.store(score_ptr + slot, ending)
            remaining = 0
        else:
            drawn = tl.argmax(contest, axis=0, tie_break_left=True)
            here = place == drawn
            score = tl.sum(tl.where(here, scores, 0.0), axis=0)
            if GREEDY:
                kept = score > 0
            else:
                drawn_key = tl.sum(tl.where(here, key, 0), axis=0)
                kept = _uniform(drawn_key, 2 * step + 1, GOLDEN, START) < _sigmoid(score)
            tl.store(candidate_ptr + slot, start + drawn)
            tl.store(kept_ptr + slot, kept)
            tl.store(score_ptr + slot, score)
            tl.store(live_ptr + start + place, tl.zeros_like(key).to(tl.int8), mask=here)
            remaining -= 1
            if kept and remaining > 0:
                given = tl.load(given_ptr + (start + drawn) * WIDTH + column, mask=in_row, other=0.0)
                total += given
                if WEIGHTED:
                    kept_count += tl.load(counted_ptr + start + drawn)
                else:
                    kept_count += 1.0
                looks = True
            tl.debug_barrier()
        step += 1
    tl.store(decisions_ptr + episode, step)
    tl.store(ending_ptr + episode, ending)
