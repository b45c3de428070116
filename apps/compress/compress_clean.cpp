#include "apps/compress/compress_clean.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "apps/checkpoint/companions.hpp"
#include "apps/checkpoint/conversion.hpp"
#include "checkpoint/convert/native_export.hpp"

namespace troupe::apps {
core::result<void> write_clean(const compress_arguments& a) {
  TROUPE_ASSIGN(auto opened, open_described(a.source, a.model_config));
  TROUPE_ASSIGN(const auto cleaned, clean(std::move(opened)));
  const auto& source = cleaned.now.source;
  TROUPE_TRY(check_parameters(cleaned.now));
  conversion writing(a.source, a.output);
  const uint64_t needed = checkpoint::native_bytes(source) + header_reserve_bytes;
  TROUPE_TRY(writing.prepare(source, output_kind::folder, needed));
  const auto progress = writing.progress();
  TROUPE_TRY(checkpoint::export_native(source, writing.place().working(), progress));
  TROUPE_TRY(write_description(cleaned.now.model, writing.place().working()));
  TROUPE_ASSIGN(const auto missing, copy_companions(source, cleaned.now.model.json, writing.place().working()));
  TROUPE_TRY(writing.commit());
  if (!missing.empty()) note(a.source, "warning: " + missing);
  if (a.source.verbosity == verbosity::quiet) return {};
  print_cleaning(cleaned);
  std::printf("troupe train CONFIG --resume %s continues from it, with model: {path: %s} instead of its sizes\n",
              a.output.out.c_str(), a.output.out.c_str());
  return {};
}

core::result<described_checkpoint> open_to_compress(const compress_arguments& a, tensor_grids& grids) {
  source_arguments from = a.source;
  // cleaning reads the run's configuration, which a source of weights alone does not have
  from.wants_weights = !a.clean;
  auto opened = open_described(from, a.model_config);
  if (opened && !a.clean) note_unclean(a.source, opened->source);
  if (!opened || !a.clean) return opened;
  TROUPE_ASSIGN(auto cleaned, clean(std::move(*opened)));
  TROUPE_ASSIGN(auto trained, trained_grids(cleaned));
  grids = std::move(trained);
  if (a.source.verbosity != verbosity::quiet) print_cleaning(cleaned);
  return std::move(cleaned.now);
}

core::result<void> store_trained(const tensor_grids& grids, const compress_target& target,
                                 const std::filesystem::path& folder, compress_work& with) {
  TROUPE_ASSIGN(auto store,
                checkpoint::weight_store::open(folder / "trained", "weights on the grids that they were trained on"));
  for (const auto& [tensor, grid] : grids) {
    const auto form = target.form_of(tensor);
    if (form == nullptr) continue;
    TROUPE_TRY(checkpoint::put_trained(store, with.source, tensor, grid, *form));
  }
  TROUPE_TRY(store.commit(1));
  TROUPE_ASSIGN(auto prepared, store.prepared());
  prepared.importance = std::move(with.prepared.importance);
  with.prepared = std::move(prepared);
  return {};
}

std::string as_trained(const compress_summary& written, const checkpoint::prepared_weights& stored,
                       const tensor_grids& grids) {
  double largest = 0;
  for (const auto& [tensor, grid] : grids)
    if (const auto* weight = stored.find(tensor)) largest = std::max(largest, weight->lost.largest);
  const auto kept = static_cast<size_t>(
      std::ranges::count_if(grids, [&](const auto& one) { return stored.find(one.first) != nullptr; }));
  if (kept < grids.size())
    for (const auto& l : written.layers) largest = std::max(largest, l.largest_error);
  if (largest == 0) return "stored values are the trained ones bit for bit";
  return fmt::format("stored values differ from the trained ones by at most {:.3g}; {} of {} weights keep their grid",
                     largest, kept, grids.size());
}

}  // namespace troupe::apps
