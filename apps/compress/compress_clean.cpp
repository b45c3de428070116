#include "apps/compress/compress_clean.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "apps/checkpoint/companions.hpp"
#include "apps/checkpoint/conversion.hpp"
#include "checkpoint/convert/native_export.hpp"

namespace troupe::apps {
namespace {

using core::fail;

}  // namespace

core::result<void> write_clean(const compress_arguments& a) {
  auto opened = open_described(a.source, a.model_config);
  if (!opened) return fail(opened.error());
  const auto cleaned = clean(std::move(*opened));
  if (!cleaned) return fail(cleaned.error());
  const auto& source = cleaned->now.source;
  if (auto ok = check_parameters(cleaned->now); !ok) return ok;
  conversion writing(a.source, a.output);
  const uint64_t needed = checkpoint::native_bytes(source) + header_reserve_bytes;
  if (auto ok = writing.prepare(source, output_kind::folder, needed); !ok) return ok;
  const auto progress = writing.progress();
  const auto written = checkpoint::export_native(source, writing.place().working(), progress);
  if (!written) return fail(written.error());
  if (auto ok = write_description(cleaned->now.model, writing.place().working()); !ok) return ok;
  if (auto ok = copy_companions(source, writing.place().working()); !ok) return ok;
  if (auto ok = writing.commit(); !ok) return ok;
  if (a.source.verbosity == verbosity::quiet) return {};
  print_cleaning(*cleaned);
  std::printf("troupe train CONFIG --resume %s goes on from it, with model: {path: %s} in place of its sizes\n",
              a.output.out.c_str(), a.output.out.c_str());
  return {};
}

core::result<described_checkpoint> open_to_compress(const compress_arguments& a, tensor_grids& grids) {
  source_arguments from = a.source;
  from.wants_weights = !a.clean;  // cleaning needs the run's configuration
  auto opened = open_described(from, a.model_config);
  if (!opened || !a.clean) return opened;
  auto cleaned = clean(std::move(*opened));
  if (!cleaned) return fail(cleaned.error());
  auto trained = trained_grids(*cleaned);
  if (!trained) return fail(trained.error());
  grids = std::move(*trained);
  if (a.source.verbosity != verbosity::quiet) print_cleaning(*cleaned);
  return std::move(cleaned->now);
}

core::result<void> store_trained(const tensor_grids& grids, const compress_target& target,
                                 const std::filesystem::path& folder, compress_work& with) {
  auto store = checkpoint::weight_store::open(folder / "trained", "weights on the grids that they were trained on");
  if (!store) return fail(store.error());
  for (const auto& [tensor, grid] : grids) {
    const auto form = target.form_of(tensor);
    if (form == nullptr) continue;
    if (const auto put = checkpoint::put_trained(*store, with.source, tensor, grid, *form); !put)
      return fail(put.error());
  }
  if (auto ok = store->commit(1); !ok) return ok;
  auto prepared = store->prepared();
  if (!prepared) return fail(prepared.error());
  prepared->importance = std::move(with.prepared.importance);
  with.prepared = std::move(*prepared);
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
