// Fills batches with windows of the sources' token streams; each row of a batch is one window of sequence + 1 tokens.
#include "data/batch.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "core/math.hpp"
#include "data/corpus.hpp"

namespace troupe::data {
namespace {

/// Returns a batch of `rows` rows: row `r` has the tokens of window(place(r)), and place(r) as its sample number.
template <class Place, class Window>
batch fill(const data::corpus& corpus, uint64_t rows, Place place, Window window) {
  batch out;
  out.rows = rows;
  out.columns = corpus.sequence() + 1;
  out.tokens.resize(rows * out.columns);
  out.samples.resize(rows);
  if (corpus.document_mask()) out.document_start.resize(rows * corpus.sequence());
  for (uint64_t r = 0; r < rows; ++r) {
    const uint64_t at = place(r);
    const data::corpus::window from = window(at);
    const auto row = std::span(out.tokens).subspan(r * out.columns, out.columns);
    if (auto ok = from.stream->copy(from.first, row); !ok) {
      out.failure = ok.error();
      return out;
    }
    if (corpus.document_mask())
      from.stream->document_starts(from.first, row.first(corpus.sequence()),
                                   std::span(out.document_start).subspan(r * corpus.sequence(), corpus.sequence()));
    out.samples[r] = at;
  }
  return out;
}

batch failed_batch(std::string why) {
  batch out;
  out.failure = core::error{core::error_kind::bad_input, std::move(why)};
  return out;
}

}  // namespace

batch make_rows(const corpus& corpus, uint64_t first, uint64_t rows, const left_out& skipped) {
  batch out = fill(
      corpus, rows, [&](uint64_t r) { return skipped.position_of(first + r); },
      [&](uint64_t position) { return corpus.training(position); });
  if (out.failure) return out;
  out.by_token = core::order_of_inputs(out.tokens, corpus.sequence());
  if (corpus.document_mask()) out.by_column = core::order_of_columns(out.document_start, corpus.sequence());
  return out;
}

batch make_batch(const corpus& corpus, const batch_shape& shape, uint64_t step, uint32_t micro, uint32_t rank) {
  if (micro >= shape.micros || rank >= shape.ranks || step < shape.first_step)
    return failed_batch(fmt::format(
        "wanted a micro-batch number below {}, of one of {} data ranks, from step {} on, got {} of rank {} in step {}",
        shape.micros, shape.ranks, shape.first_step, micro, rank, step));
  batch out = make_rows(corpus, shape.first_sample_of(step, micro, rank), shape.rows, shape.skipped);
  out.step = step;
  out.micro = micro;
  return out;
}

uint64_t validation_batches(const corpus& corpus, uint64_t rows) {
  if (rows == 0) return 0;
  return core::div_up(corpus.validation_windows(), rows);
}

uint64_t validation_rows(const corpus& corpus, uint64_t rows, uint64_t index) {
  const uint64_t windows = corpus.validation_windows();
  return index < validation_batches(corpus, rows) ? std::min(rows, windows - index * rows) : 0;
}

batch make_validation_batch(const corpus& corpus, uint64_t rows, uint64_t index) {
  if (rows == 0 || index >= validation_batches(corpus, rows))
    return failed_batch(
        fmt::format("wanted a validation batch of one row or more within {} windows, got number {} of {} rows each",
                    corpus.validation_windows(), index, rows));
  const uint64_t first = index * rows;
  return fill(
      corpus, validation_rows(corpus, rows, index), [&](uint64_t r) { return first + r; },
      [&](uint64_t window) { return corpus.validation(window); });
}

}  // namespace troupe::data
