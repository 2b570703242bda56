"""The Triton kernel that plays several episodes per target over the same rows and records no decisions.

A program plays sixteen episodes in lockstep, so that their products are products of matrices.
"""

from __future__ import annotations

import triton
import triton.language as tl

from gdpnet.selection.engines.triton_kernel import gumbel, load_block, mix, score_rows, uniform

_COPY_FOLD = tl.constexpr((3 * 0x9E3779B9 & 0xFFFFFFFF) - (1 << 32))
"""The constant that `gdpnet._core.random.keys` adds to the third part of a key, the copy; signed."""


# without this, values that are one or a multiple of sixteen would be compiled separately; so would numbers of classes
@triton.jit(do_not_specialize=["first_episode", "last_episode", "copies", "candidates", "classes"])
def play_copies(
    own_ptr, bias_ptr, heads_ptr, head_bias_ptr,
    row_ptr, offsets_ptr, key_ptr, ending_key_ptr,
    message_ptr, half_ptr, probabilities_ptr,
    target_weight_ptr, extras_ptr, first_bias_ptr, agreement_ptr,
    hidden_weight_ptr, hidden_bias_ptr, score_weight_ptr, score_bias_ptr, ending_half_ptr,
    probability_ptr, kept_ptr,
    first_episode, last_episode, copies, candidates, classes,
    ROWS: tl.constexpr, TILES: tl.constexpr, TILE: tl.constexpr, PRECISION: tl.constexpr,
    WIDTH: tl.constexpr, FIRST: tl.constexpr, SECOND: tl.constexpr,
    WIDTH_P: tl.constexpr, CLASSES_P: tl.constexpr, FIRST_P: tl.constexpr, SECOND_P: tl.constexpr,
    GREEDY: tl.constexpr, LEARNED: tl.constexpr, CAN_END: tl.constexpr, EXTRAS: tl.constexpr,
    SELF_WEIGHT: tl.constexpr,
):  # fmt: skip
    """Play some episodes; the state of a row that ends before the others no longer changes."""
    BLOCK: tl.constexpr = TILES * TILE
    number = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    episode = first_episode + number // copies
    copy = (number % copies).to(tl.int32)
    plays = episode < last_episode
    start = tl.load(offsets_ptr + episode, mask=plays, other=0)
    length = (tl.load(offsets_ptr + episode + 1, mask=plays, other=0) - start).to(tl.int32)
    longest = tl.max(length, axis=0)
    row = tl.load(row_ptr + episode, mask=plays, other=0)

    column, label, place = tl.arange(0, WIDTH_P), tl.arange(0, CLASSES_P), tl.arange(0, BLOCK)
    first, second = tl.arange(0, FIRST_P), tl.arange(0, SECOND_P)
    in_row, in_first, in_second, in_label = column < WIDTH, first < FIRST, second < SECOND, label < classes
    inside = place[None, :] < length[:, None]

    own = tl.load(own_ptr + row[:, None] * WIDTH + column[None, :], mask=in_row[None, :], other=0.0)
    bias = tl.load(bias_ptr + column, mask=in_row, other=0.0)
    head_bias = tl.load(head_bias_ptr + label, mask=in_label, other=-float("inf"))
    first_bias = tl.load(first_bias_ptr + first, mask=in_first, other=0.0)
    hidden_bias = tl.load(hidden_bias_ptr + second, mask=in_second, other=0.0)
    score_weight = tl.load(score_weight_ptr + second, mask=in_second, other=0.0)
    score_bias = tl.load(score_bias_ptr)
    fold = mix(copy + _COPY_FOLD)
    key = tl.load(key_ptr + start[:, None] + place[None, :], mask=inside, other=0)
    key = mix(key + fold[:, None])
    ending_key = mix(tl.load(ending_key_ptr + episode, mask=plays, other=0) + fold)

    open_ = inside
    selected = place[None, :] < tl.zeros((ROWS, 1), tl.int32)
    scores = tl.zeros((ROWS, BLOCK), tl.float32)
    total = tl.zeros((ROWS, WIDTH_P), tl.float32)
    kept_count = tl.zeros((ROWS,), tl.float32)
    ending = tl.zeros((ROWS,), tl.float32)
    remaining = length
    step = 0
    while tl.max(remaining, axis=0) > 0:
        # always zero, which the compiler cannot know: it must not keep matrices and addresses in registers
        again = (step >> 30) * 16
        across, down, out, which = column + again, first + again, second + again, label + again
        # the targets' embeddings and class probabilities, given the neighbours they kept
        if SELF_WEIGHT:
            state = tl.maximum(total / tl.maximum(kept_count, 1e-6)[:, None] + own + bias[None, :], 0.0)
        else:
            state = tl.maximum((own + total) / (1.0 + kept_count)[:, None] + bias[None, :], 0.0)
        heads = load_block(heads_ptr, across, which, WIDTH, classes)
        logits = tl.dot(state, heads, input_precision=PRECISION) + head_bias[None, :]
        probability = tl.softmax(logits, 1, keep_dims=True)
        target_weight = load_block(target_weight_ptr, across, down, WIDTH, FIRST)
        target_half = tl.dot(state, target_weight, input_precision=PRECISION) + first_bias[None, :]
        if EXTRAS:
            confidence = tl.load(extras_ptr + first, mask=in_first, other=0.0)
            count = tl.load(extras_ptr + FIRST + first, mask=in_first, other=0.0)
            target_half += tl.max(probability, axis=1)[:, None] * confidence[None, :]
            target_half += tl.log(1.0 + kept_count)[:, None] * count[None, :]
        if CAN_END:
            ending_half = tl.load(ending_half_ptr + first, mask=in_first, other=0.0)
            hidden_weight = load_block(hidden_weight_ptr, down, out, FIRST, SECOND)
            end_layer = target_half + ending_half[None, :]
            ending = score_rows(end_layer, hidden_weight, hidden_bias, score_weight, score_bias, PRECISION)
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
                    probabilities_ptr + at[:, :, None] * classes + which[None, None, :],
                    mask=there[:, :, None] & (which < classes)[None, None, :],
                    other=0.0,
                )
                agreement = tl.sum(other * probability[:, None, :], axis=2)
                agreement_weight = tl.load(agreement_ptr + first, mask=in_first, other=0.0)
                layer += agreement[:, :, None] * agreement_weight[None, None, :]
            flat = tl.reshape(layer, (ROWS * TILE, FIRST_P))
            hidden_weight = load_block(hidden_weight_ptr, inner, out, FIRST, SECOND)
            score = score_rows(flat, hidden_weight, hidden_bias, score_weight, score_bias, PRECISION)
            tiled = tl.broadcast_to(tl.reshape(score, (ROWS, 1, TILE)), (ROWS, TILES, TILE))
            in_tile = open_ & (place // TILE == tile)[None, :]
            scores = tl.where(in_tile, tl.reshape(tiled, (ROWS, BLOCK)), scores)
            tile += 1

        perturbed = scores if LEARNED else tl.zeros_like(scores)
        if not (GREEDY and LEARNED):
            perturbed += gumbel(key, 2 * step)
        perturbed = tl.where(open_, perturbed, -float("inf"))
        runs = remaining > 0
        draws = runs
        if CAN_END:
            end_score = ending
            if not GREEDY:
                end_score += gumbel(ending_key, 2 * step)
            ends = runs & (end_score > tl.max(perturbed, axis=1))
            draws = runs & (ends == 0)
            remaining = tl.where(ends, 0, remaining)
        drawn = tl.argmax(perturbed, axis=1, tie_break_left=True)
        here = (place[None, :] == drawn[:, None]) & draws[:, None]
        score = tl.sum(tl.where(here, scores, 0.0), axis=1)
        if GREEDY:
            kept = draws & (score > 0)
        else:
            drawn_key = tl.sum(tl.where(here, key, 0), axis=1)
            kept = draws & (uniform(drawn_key, 2 * step + 1) < tl.sigmoid(score))
        open_ = open_ & (here == 0)
        selected = selected | (here & kept[:, None])
        remaining = tl.where(draws, remaining - 1, remaining)
        grows = kept & (remaining > 0)
        message = message_ptr + (start + drawn)[:, None] * WIDTH + across[None, :]
        total += tl.load(message, mask=grows[:, None] & (across < WIDTH)[None, :], other=0.0)
        kept_count += grows.to(tl.float32)
        step += 1
    keep = tl.sigmoid(scores)
    if CAN_END:
        keep = tl.where(open_, keep * tl.sigmoid(scores - ending[:, None]), keep)
    slot = copy.to(tl.int64)[:, None] * candidates + start[:, None] + place[None, :]
    tl.store(probability_ptr + slot, keep, mask=inside)
    tl.store(kept_ptr + slot, selected.to(tl.int8), mask=inside)
