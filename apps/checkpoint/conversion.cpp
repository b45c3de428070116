#include "apps/checkpoint/conversion.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "core/text.hpp"
#include "formats/source/element_cast.hpp"

namespace troupe::apps {

namespace {

/// Limit of the output's bytes for each byte of the files that it is made from. Blocks of 1.5 bits become 21 times as
/// many bytes in fp32, and layers that share a weight are written a few dozen times; a larger factor means few bytes
/// that repeat under many names or with strides of zero.
constexpr uint64_t most_times_larger = 64;
/// Size of the output up to which a conversion is permitted even if the source's files are much smaller.
constexpr uint64_t always_written_bytes = uint64_t{64} << 20;

/// Returns the bytes of all files that contain the tensors.
uint64_t stored_bytes(const formats::tensor_source& source) {
  uint64_t out = 0;
  for (const auto& f : source.files) out += f.view == nullptr ? f.bytes : 0;
  return out;
}

core::result<void> check_growth(const formats::tensor_source& source, const std::string& out, uint64_t needed_bytes) {
  const uint64_t stored = stored_bytes(source);
  if (needed_bytes <= always_written_bytes || needed_bytes / most_times_larger <= stored) return {};
  return core::fail(
      core::error_kind::limit,
      fmt::format("'{}' would take {}, more than {} times the {} of '{}', which repeats its bytes under many "
                  "names or with strides of 0: files of torch.save (NAME.pt) keep the bytes of several "
                  "names once",
                  out, core::human_bytes(needed_bytes), most_times_larger, core::human_bytes(stored),
                  formats::shown_place(source)));
}

}  // namespace

core::result<void> conversion::prepare(const formats::tensor_source& source, output_kind kind, uint64_t needed_bytes) {
  TROUPE_TRY(check_growth(source, to_.out, needed_bytes));
  TROUPE_ASSIGN(auto place, output_place::prepare({to_.out, kind, to_.force, needed_bytes}, source));
  place_.emplace(std::move(place));
  clamped_ = source.clamped;
  return {};
}

core::result<void> conversion::commit(const std::filesystem::path& below) {
  display_.clear();
  if (clamped_ != nullptr && clamped_->count > 0)
    note(from_, fmt::format("warning: {} values outside the range of the type were clamped to its largest",
                            clamped_->count.load()));
  return place_->commit(below);
}

void conversion::say(const std::string& written, std::optional<uint64_t> bytes) const {
  if (from_.verbosity == verbosity::quiet) return;
  const double seconds = std::max(display_.seconds(), 1e-9);
  std::string line = fmt::format("{}: {}, {:.1f} s", to_.out, written, seconds);
  if (bytes) line += fmt::format(", {}/s", core::human_bytes(static_cast<double>(*bytes) / seconds));
  std::printf("%s\n", line.c_str());
}

}  // namespace troupe::apps
