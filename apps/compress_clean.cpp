#include "apps/compress_clean.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "apps/companions.hpp"
#include "apps/conversion.hpp"
#include "checkpoint/convert/native_export.hpp"

namespace troupe::apps {
namespace {

using core::fail;

/// For the manifest and config.json, beside the tensors.
constexpr uint64_t header_reserve_bytes = uint64_t{1} << 20;

}  // namespace

core::result<void> write_clean(const compress_arguments& a) {
  auto opened = open_described(a.source, a.model_config);
  if (!opened) return fail(opened.error());
  const std::filesystem::path from = opened->source.folder;
  const auto cleaned = clean(std::move(*opened));
  if (!cleaned) return fail(cleaned.error());
  const auto& source = cleaned->now.source;
  conversion writing(a.source, a.output);
  const uint64_t needed = checkpoint::native_bytes(source) + header_reserve_bytes;
  if (auto ok = writing.prepare(source, output_kind::folder, needed); !ok) return ok;
  const auto progress = writing.progress();
  const auto written = checkpoint::export_native(source, writing.place().working(), progress);
  if (!written) return fail(written.error());
  if (auto ok = write_description(cleaned->now.model, writing.place().working()); !ok) return ok;
  if (auto ok = copy_companions(from, writing.place().working()); !ok) return ok;
  if (auto ok = writing.commit(); !ok) return ok;
  if (a.source.verbosity == verbosity::quiet) return {};
  print_cleaning(*cleaned);
  std::printf("troupe train CONFIG --resume %s goes on from it, with model: {path: %s} in place of its sizes\n",
              a.output.out.c_str(), a.output.out.c_str());
  return {};
}

core::result<described_checkpoint> open_to_compress(const compress_arguments& a, trained_scales& scales) {
  auto opened = open_described(a.source, a.model_config);
  if (!opened || !a.clean) return opened;
  auto cleaned = clean(std::move(*opened));
  if (!cleaned) return fail(cleaned.error());
  auto trained = trained_scales::of(*cleaned);
  if (!trained) return fail(trained.error());
  scales = std::move(*trained);
  if (a.source.verbosity != verbosity::quiet) print_cleaning(*cleaned);
  return std::move(cleaned->now);
}

std::string as_trained(const compress_summary& written, const trained_scales& scales) {
  if (scales.empty()) return {};
  double largest = 0;
  for (const auto& l : written.layers) largest = std::max(largest, l.largest_error);
  return largest == 0 ? std::string("stored values are the trained ones bit for bit")
                      : fmt::format("stored values differ from the trained ones by at most {:.3g}", largest);
}

}  // namespace troupe::apps
