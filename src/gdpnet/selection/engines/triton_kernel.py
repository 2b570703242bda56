"""The Triton kernel that plays episodes: scores, draws, decisions and running means stay on the chip."""

from __future__ import annotations

import triton
import triton.language as tl

from gdpnet.selection.policy import SCORE_BOUND

_BOUND = tl.constexpr(SCORE_BOUND)


@triton.jit
def mix(key):
    """Mix the bits as `gdpnet._core.random.mix` does."""
    bits = key ^ ((key >> 16) & 0xFFFF)
    bits = bits * 0x45D9F3B
    bits = bits ^ ((bits >> 15) & 0x1FFFF)
    bits = bits * -0x61C88647
    return bits ^ ((bits >> 16) & 0xFFFF)


@triton.jit
def uniform(key, counter):
    """Draw as `gdpnet._core.random.uniforms` does."""
    bits = mix(key + (counter * -0x61C88647 + 0x7F4A7C15).to(tl.int32))
    return (((bits >> 9) & 0x7FFFFF).to(tl.float32) + 0.5) * (1.0 / 0x800000)


@triton.jit
def gumbel(key, counter):
    """Draw as `gdpnet._core.random.gumbels` does."""
    return -tl.log(-tl.log(uniform(key, counter)))


@triton.jit
def load_block(pointer, row, column, rows, columns):
    """Load a block of a row-major matrix, zeros outside of the matrix."""
    inside = (row < rows)[:, None] & (column < columns)[None, :]
    return tl.load(pointer + row[:, None] * columns + column[None, :], mask=inside, other=0.0)


@triton.jit
def score_rows(layer, hidden_weight, hidden_bias, score_weight, score_bias, PRECISION: tl.constexpr):
    """Return the score of each row of the first layer; NaN stays NaN, so that divergence is noticed."""
    KEEP_NAN: tl.constexpr = tl.PropagateNan.ALL
    hidden = tl.dot(tl.maximum(layer, 0.0, propagate_nan=KEEP_NAN), hidden_weight, input_precision=PRECISION)
    hidden = tl.maximum(hidden + hidden_bias[None, :], 0.0, propagate_nan=KEEP_NAN)
    score = tl.sum(hidden * score_weight[None, :], axis=1) + score_bias
    return tl.minimum(tl.maximum(score, -_BOUND, propagate_nan=KEEP_NAN), _BOUND, propagate_nan=KEEP_NAN)


# without this, values that are one or a multiple of sixteen would be compiled separately; so would numbers of classes
@triton.jit(do_not_specialize=["first_episode", "nodes", "classes"])
def play_one(
    own_ptr, bias_ptr, heads_ptr, head_bias_ptr,
    row_ptr, offsets_ptr, key_ptr, ending_key_ptr,
    message_ptr, half_ptr, probabilities_ptr,
    target_weight_ptr, extras_ptr, first_bias_ptr, agreement_ptr,
    hidden_weight_ptr, hidden_bias_ptr, score_weight_ptr, score_bias_ptr, ending_half_ptr,
    counted_ptr, candidate_ptr, kept_ptr, score_ptr, weight_ptr, decisions_ptr, scores_ptr, ending_ptr, open_ptr,
    first_episode, nodes, classes,
    BLOCK: tl.constexpr, TILE: tl.constexpr, WEIGHTED: tl.constexpr,
    WIDTH: tl.constexpr, FIRST: tl.constexpr, SECOND: tl.constexpr,
    WIDTH_P: tl.constexpr, CLASSES_P: tl.constexpr, FIRST_P: tl.constexpr, SECOND_P: tl.constexpr,
    GREEDY: tl.constexpr, LEARNED: tl.constexpr, CAN_END: tl.constexpr, EXTRAS: tl.constexpr,
    SELF_WEIGHT: tl.constexpr,
):  # fmt: skip
    """Play one episode."""
    episode = (first_episode + tl.program_id(0)).to(tl.int64)
    start = tl.load(offsets_ptr + episode)
    length = (tl.load(offsets_ptr + episode + 1) - start).to(tl.int32)
    row = tl.load(row_ptr + episode)
    fold_model = row // nodes

    column, label, place = tl.arange(0, WIDTH_P), tl.arange(0, CLASSES_P), tl.arange(0, BLOCK)
    first, second = tl.arange(0, FIRST_P), tl.arange(0, SECOND_P)
    in_row, in_first, in_second, in_label = column < WIDTH, first < FIRST, second < SECOND, label < classes
    inside = place < length

    own = tl.load(own_ptr + row * WIDTH + column, mask=in_row, other=0.0)
    bias = tl.load(bias_ptr + fold_model * WIDTH + column, mask=in_row, other=0.0)
    heads = load_block(heads_ptr + fold_model * WIDTH * classes, column, label, WIDTH, classes)
    head_bias = tl.load(head_bias_ptr + fold_model * classes + label, mask=in_label, other=-float("inf"))
    first_bias = tl.load(first_bias_ptr + first, mask=in_first, other=0.0)
    hidden_weight = load_block(hidden_weight_ptr, first, second, FIRST, SECOND)
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
    stale = True
    while remaining > 0:
        if stale:
            # the target's embedding and class probabilities, given the neighbours it kept
            if SELF_WEIGHT:
                state = tl.maximum(total / tl.maximum(kept_count, 1e-6) + own + bias, 0.0)
            else:
                state = tl.maximum((own + total) / (1.0 + kept_count) + bias, 0.0)
            logits = tl.sum(state[:, None] * heads, axis=0) + head_bias
            probability = tl.softmax(logits, 0)
            target_weight = load_block(target_weight_ptr, column, first, WIDTH, FIRST)
            target_half = tl.sum(state[:, None] * target_weight, axis=0) + first_bias
            if EXTRAS:
                confidence = tl.load(extras_ptr + first, mask=in_first, other=0.0)
                count = tl.load(extras_ptr + FIRST + first, mask=in_first, other=0.0)
                target_half += tl.max(probability, axis=0) * confidence + tl.log(1.0 + kept_count) * count
            if CAN_END:
                ending_half = tl.load(ending_half_ptr + first, mask=in_first, other=0.0)
                end_layer = tl.maximum(target_half + ending_half, 0.0)
                end_hidden = tl.maximum(tl.sum(end_layer[:, None] * hidden_weight, axis=0) + hidden_bias, 0.0)
                ending = tl.sum(end_hidden * score_weight, axis=0) + score_bias
                ending = tl.minimum(tl.maximum(ending, -_BOUND), _BOUND)
            begin = 0
            while begin < length:
                some = begin + tl.arange(0, TILE)
                there = some < length
                layer = (
                    load_block(half_ptr + start * FIRST, some, first, length, FIRST) + target_half[None, :]
                )
                if EXTRAS:
                    other = load_block(probabilities_ptr + start * classes, some, label, length, classes)
                    agreement = tl.sum(other * probability[None, :], axis=1)
                    agreement_weight = tl.load(agreement_ptr + first, mask=in_first, other=0.0)
                    layer += agreement[:, None] * agreement_weight[None, :]
                tile_score = score_rows(layer, hidden_weight, hidden_bias, score_weight, score_bias, "ieee")
                tile_open = tl.load(open_ptr + start + some, mask=there, other=0)
                tl.store(scores_ptr + start + some, tile_score, mask=there & (tile_open != 0))
                begin += TILE
            tl.debug_barrier()
        open_ = tl.load(open_ptr + start + place, mask=inside, other=0) != 0
        scores = tl.load(scores_ptr + start + place, mask=inside, other=0.0)
        regret = scores if LEARNED else tl.zeros_like(scores)
        perturbed = regret
        if not (GREEDY and LEARNED):
            perturbed = regret + gumbel(key, 2 * step)
        perturbed = tl.where(open_, perturbed, -float("inf"))
        best = tl.max(perturbed, axis=0)
        weight = tl.sum(tl.where(open_, tl.exp(regret), 0.0), axis=0)
        ends = False
        if CAN_END:
            weight += tl.exp(ending)
            end_score = ending
            if not GREEDY:
                end_score = ending + gumbel(ending_key, 2 * step)
            ends = end_score > best
        slot = start + episode + step
        tl.store(weight_ptr + slot, weight)
        stale = False
        if ends:
            tl.store(score_ptr + slot, ending)
            remaining = 0
        else:
            drawn = tl.argmax(perturbed, axis=0, tie_break_left=True)
            here = place == drawn
            score = tl.sum(tl.where(here, scores, 0.0), axis=0)
            if GREEDY:
                kept = score > 0
            else:
                drawn_key = tl.sum(tl.where(here, key, 0), axis=0)
                kept = uniform(drawn_key, 2 * step + 1) < tl.sigmoid(score)
            tl.store(candidate_ptr + slot, start + drawn)
            tl.store(kept_ptr + slot, kept)
            tl.store(score_ptr + slot, score)
            tl.store(open_ptr + start + place, tl.zeros_like(key).to(tl.int8), mask=here)
            remaining -= 1
            if kept and remaining > 0:
                message = tl.load(message_ptr + (start + drawn) * WIDTH + column, mask=in_row, other=0.0)
                total += message
                if WEIGHTED:
                    kept_count += tl.load(counted_ptr + start + drawn)
                else:
                    kept_count += 1.0
                stale = True
            tl.debug_barrier()
        step += 1
    tl.store(decisions_ptr + episode, step)
    tl.store(ending_ptr + episode, ending)
