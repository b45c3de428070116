#include "apps/python/weights.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <span>

#include "core/tensor_view.hpp"

namespace troupe::apps {

core::result<std::unique_ptr<fp32_weights>> fp32_weights::open(const weights_arguments& a) {
  TROUPE_ASSIGN(auto source, open_for_fp32(a));
  std::unique_ptr<fp32_weights> out(new fp32_weights(std::move(source)));
  TROUPE_ASSIGN(auto all, checkpoint::weights_of(out->source_, {.out = {}, .exclude_frozen = a.exclude_frozen}));
  out->all_ = std::move(all);
  return out;
}

core::result<std::optional<loaded_weight>> fp32_weights::next(const storage::progress_function& goes_on) {
  if (is_read_.exchange(true))
    return fail(error_kind::bad_input, "another thread is reading the next of these tensors");
  const std::unique_ptr<std::atomic<bool>, void (*)(std::atomic<bool>*)> read_until_here(
      &is_read_, [](std::atomic<bool>* is_read) { *is_read = false; });
  core::result<std::optional<loaded_weight>> out;
  if (next_ < all_.size()) out = read(all_[next_], goes_on);
  if (out && *out) ++next_;
  return out;
}

core::result<loaded_weight> fp32_weights::read(const checkpoint::exported_weight& w,
                                               const storage::progress_function& goes_on) {
  const auto& from = *w.from;
  const uint64_t elements = core::numel_of(from.shape), element_bytes = core::size_of(w.type);
  const uint64_t bytes = elements * element_bytes;
  loaded_weight out{w.name, w.type, from.shape, {}};
  try {
    out.bytes = std::make_unique_for_overwrite<std::byte[]>(bytes);
  } catch (const std::bad_alloc&) {
    return fail(error_kind::limit, fmt::format("tensor {}: not enough memory for its {} bytes", w.name, bytes));
  }
  const uint64_t block = formats::read_block_bytes / element_bytes;
  for (uint64_t done = 0; done < elements;) {
    const uint64_t n = std::min(elements - done, block);
    const std::span into(out.bytes.get() + done * element_bytes, n * element_bytes);
    TROUPE_TRY(reader_.read_as(w.type, from, done, n, into));
    done += n;
    if (!goes_on(done * element_bytes, bytes)) return fail(error_kind::stopped, "stopped while reading " + w.name);
  }
  return out;
}

}  // namespace troupe::apps
