#include "models/segment/batch_numbers.hpp"

#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <cstring>
#include <span>

#include "core/math.hpp"

namespace troupe::models {
namespace {

constexpr uint64_t array_alignment_bytes = 64;

/// Returns for each input token its position in its document.
std::vector<int64_t> places_in_documents(const micro_batch& batch) {
  std::vector<int64_t> out(batch.document_start.size());
  for (size_t i = 0; i < out.size(); ++i)
    out[i] = static_cast<int64_t>(i % batch.columns) - static_cast<int64_t>(batch.document_start[i]);
  return out;
}

/// Returns the index of each document's first token among the tokens of all rows, and at the end the number of tokens.
std::vector<int32_t> boundaries_of(const micro_batch& batch) {
  std::vector<int32_t> out;
  for (size_t i = 0; i < batch.document_start.size(); ++i)
    if (batch.document_start[i] == i % batch.columns) out.push_back(static_cast<int32_t>(i));
  out.push_back(static_cast<int32_t>(batch.document_start.size()));
  return out;
}

int64_t longest_of(std::span<const int32_t> boundaries) {
  int32_t out = 0;
  for (size_t i = 1; i < boundaries.size(); ++i) out = std::max(out, boundaries[i] - boundaries[i - 1]);
  return out;
}

/// Calls f(tensor, type, sizes, numbers) for each array that `batch` has, in the order in which they are packed:
/// `tensor` is its member of `to`, and `numbers()` returns its numbers in host memory. `boundaries` is the result of
/// boundaries_of(batch).
void for_each_array(const micro_batch& batch, std::span<const int32_t> boundaries, batch_numbers& to, auto f) {
  const auto rows = static_cast<int64_t>(batch.rows), columns = static_cast<int64_t>(batch.columns);
  const auto list = [&](at::Tensor& t, const std::vector<int64_t>& numbers) {
    f(t, at::kLong, {static_cast<int64_t>(numbers.size())}, [&] { return std::span(numbers); });
  };
  const auto ordered = [&](ordered_places& places, const core::token_order* order) {
    if (order == nullptr) return;
    list(places.ids, order->ids);
    list(places.begin, order->begin);
    list(places.order, order->order);
  };
  f(to.tokens, at::kLong, {rows, columns + 1}, [&] { return batch.tokens; });
  ordered(to.by_token, batch.by_token);
  if (!batch.targets.empty()) f(to.targets, at::kLong, {rows, columns}, [&] { return batch.targets; });
  if (batch.document_start.empty()) return;
  ordered(to.by_column, batch.by_column);
  f(to.places, at::kLong, {rows, columns}, [&] { return places_in_documents(batch); });
  f(to.document_start, at::kInt, {rows, columns}, [&] { return batch.document_start; });
  f(to.boundaries, at::kInt, {static_cast<int64_t>(boundaries.size())}, [&] { return boundaries; });
}

using array_sizes = std::initializer_list<int64_t>;

uint64_t array_bytes(at::ScalarType type, array_sizes sizes) {
  uint64_t out = c10::elementSize(type);
  for (const int64_t n : sizes) out *= static_cast<uint64_t>(n);
  return out;
}

template <class T>
at::Tensor view_of(std::span<const T> numbers, at::ScalarType type) {
  return at::from_blob(const_cast<T*>(numbers.data()), {static_cast<int64_t>(numbers.size())}, type);
}

/// Returns `numbers`, one per input token, viewed in the shape (B, T).
at::Tensor by_input(const at::Tensor& numbers, const micro_batch& batch) {
  return numbers.view({static_cast<int64_t>(batch.rows), static_cast<int64_t>(batch.columns)});
}

void must_be_host(at::Device where) {
  TORCH_CHECK(where.is_cpu(), "a micro-batch with numbers that are not on ", where);
}

}  // namespace

ordered_places views_of(const core::token_order& order) {
  const auto view = [](const std::vector<int64_t>& x) { return view_of(std::span(x), at::kLong); };
  return {view(order.ids), view(order.begin), view(order.order)};
}

at::Tensor tokens_on(const micro_batch& batch, at::Device where) {
  if (batch.numbers != nullptr) return batch.numbers->tokens;
  must_be_host(where);
  return view_of(batch.tokens, at::kLong)
      .view({static_cast<int64_t>(batch.rows), static_cast<int64_t>(batch.columns) + 1});
}

at::Tensor targets_on(const micro_batch& batch, at::Device where) {
  if (batch.numbers != nullptr) return batch.numbers->targets;
  must_be_host(where);
  return batch.targets.empty() ? at::Tensor() : by_input(view_of(batch.targets, at::kLong), batch);
}

at::Tensor document_start_on(const micro_batch& batch, at::Device where) {
  if (batch.numbers != nullptr) return batch.numbers->document_start;
  must_be_host(where);
  return batch.document_start.empty() ? at::Tensor() : by_input(view_of(batch.document_start, at::kInt), batch);
}

at::Tensor places_on(const micro_batch& batch, at::Device where) {
  if (batch.numbers != nullptr) return batch.numbers->places;
  must_be_host(where);
  if (batch.document_start.empty()) return {};
  const auto places = places_in_documents(batch);
  return by_input(view_of(std::span(places), at::kLong).clone(), batch);
}

ordered_places by_token_on(const micro_batch& batch, at::Device where) {
  if (batch.numbers != nullptr) return batch.numbers->by_token;
  must_be_host(where);
  return batch.by_token == nullptr ? ordered_places{} : views_of(*batch.by_token);
}

ordered_places by_column_on(const micro_batch& batch, at::Device where) {
  if (batch.numbers != nullptr) return batch.numbers->by_column;
  must_be_host(where);
  return batch.by_column == nullptr ? ordered_places{} : views_of(*batch.by_column);
}

packed_numbers::packed_numbers(const micro_batch& batch) : batch_(batch) {
  if (!batch.document_start.empty()) boundaries_ = boundaries_of(batch);
  batch_numbers none;
  for_each_array(batch_, boundaries_, none, [&](at::Tensor&, at::ScalarType type, array_sizes sizes, const auto&) {
    bytes_ += core::round_up(array_bytes(type, sizes), array_alignment_bytes);
  });
}

void packed_numbers::write(std::byte* out) const {
  batch_numbers none;
  const auto write = [&](at::Tensor&, at::ScalarType type, array_sizes sizes, const auto& numbers_of) {
    const auto numbers = numbers_of();
    const uint64_t bytes = array_bytes(type, sizes);
    TORCH_CHECK(std::as_bytes(std::span(numbers)).size() == bytes, "a micro-batch has arrays of other sizes");
    if (bytes > 0) std::memcpy(out, numbers.data(), bytes);
    out += core::round_up(bytes, array_alignment_bytes);
  };
  for_each_array(batch_, boundaries_, none, write);
}

batch_numbers packed_numbers::over(const at::Tensor& bytes) const {
  batch_numbers out;
  out.longest_document = longest_of(boundaries_);
  auto* at = static_cast<std::byte*>(bytes.mutable_data_ptr());
  for_each_array(batch_, boundaries_, out, [&](at::Tensor& t, at::ScalarType type, array_sizes sizes, const auto&) {
    t = at::from_blob(
        at, at::IntArrayRef(sizes), [bytes](void*) {}, at::dtype(type).device(bytes.device()));
    at += core::round_up(array_bytes(type, sizes), array_alignment_bytes);
  });
  return out;
}

}  // namespace troupe::models
