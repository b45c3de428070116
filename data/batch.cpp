// Windows of the stream, laid out as rows.
#include "data/batch.hpp"

#include <algorithm>
#include <cassert>

#include "core/math.hpp"

namespace troupe::data {
namespace {

/// Row `r` starts at token first_token(r) and is known as sample_id(r).
template <class FirstToken, class SampleId>
batch fill(const token_stream& stream, uint64_t rows, uint64_t sequence, FirstToken first_token, SampleId sample_id) {
  batch out;
  out.rows = rows;
  out.columns = sequence + 1;
  out.tokens.resize(rows * out.columns);
  out.samples.resize(rows);
  for (uint64_t r = 0; r < rows; ++r) {
    stream.copy(first_token(r), std::span(out.tokens).subspan(r * out.columns, out.columns));
    out.samples[r] = sample_id(r);
  }
  return out;
}

}  // namespace

batch make_rows(const token_stream& stream, const sample_order& order, uint64_t first_position, uint64_t rows) {
  return fill(
      stream, rows, order.sequence(), [&](uint64_t r) { return order.first_token_at(first_position + r); },
      [&](uint64_t r) { return first_position + r; });
}

batch make_batch(const token_stream& stream, const sample_order& order, const batch_shape& shape, uint64_t step,
                 uint32_t micro, uint32_t rank) {
  assert(micro < shape.micros && rank < shape.ranks);
  batch out = make_rows(stream, order, shape.first_position(step, micro, rank), shape.rows);
  out.step = step;
  out.micro = micro;
  return out;
}

uint64_t validation_batches(const token_range& validation, uint64_t sequence, uint64_t rows) {
  return core::div_up(validation.samples(sequence), rows);
}

batch make_validation_batch(const token_stream& stream, const token_range& validation, uint64_t sequence, uint64_t rows,
                            uint64_t index) {
  const uint64_t first = index * rows;
  const uint64_t windows = validation.samples(sequence);
  assert(first < windows);
  return fill(
      stream, std::min(rows, windows - first), sequence,
      [&](uint64_t r) { return validation.begin + (first + r) * sequence; }, [&](uint64_t r) { return first + r; });
}

}  // namespace troupe::data
