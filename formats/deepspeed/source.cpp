#include "formats/deepspeed/source.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "formats/deepspeed/files.hpp"
#include "formats/deepspeed/part.hpp"
#include "formats/deepspeed/ranks.hpp"
#include "formats/deepspeed/run.hpp"
#include "formats/names/layer_names.hpp"

namespace troupe::formats {
namespace {

namespace fs = std::filesystem;

/// Adds the tensors of one pipeline stage to `to`. A tied parameter has a copy in each stage that uses it; only the
/// first copy is added.
void add_part(tensor_source& to, deepspeed_part part) {
  std::set<std::string, std::less<>> known;
  for (const auto& t : to.tensors) known.insert(t.name);
  for (const auto& t : to.tied) known.insert(t.name);
  for (auto& t : part.tensors)
    if (!known.contains(t.name)) to.tensors.push_back(std::move(t));
  for (auto& t : part.tied)
    if (!known.contains(t.name)) to.tied.push_back(std::move(t));
  for (auto& name : part.order)
    if (!known.contains(name)) to.parameter_order.push_back(std::move(name));
  to.unread.insert(to.unread.end(), part.unread.begin(), part.unread.end());
}

std::string format_of(const deepspeed_part& part, const deepspeed_grid& grid) {
  std::string out = part.stage == 0 ? "DeepSpeed" : fmt::format("DeepSpeed ZeRO-{}", part.stage);
  if (grid.stages > 1) out += fmt::format(", {} pipeline stages", grid.stages);
  if (grid.tensor > 1) out += fmt::format(", {} tensor-parallel ranks", grid.tensor);
  if (!part.has_optimizer) out += ", no optimizer state that has names";
  return out;
}

}  // namespace

core::result<tensor_source> read_deepspeed_source(const fs::path& folder) {
  TROUPE_ASSIGN(const auto files, list_deepspeed_files(folder));

  std::vector<source_file> numbered;
  TROUPE_ASSIGN(const auto first, open_numbered(numbered, files.model.front().path));
  TROUPE_ASSIGN(const auto grid, grid_of(files, first));
  source_run run = run_of_model_file(first);

  std::vector<tensor_source> ranks(grid.tensor);
  std::string format;
  optimizer_steps steps;
  std::vector<std::string> remarks;
  for (const auto& model : files.model) {
    // At ZeRO stage 3 every data-parallel rank has a model file; from the files of ranks above 0 only the counters are
    // read, to compare them.
    if (model.dp != 0) {
      TROUPE_ASSIGN(const auto other, torch_archive::open(model.path));
      TROUPE_TRY(check_steps_of_model(other, run));
      continue;
    }
    TROUPE_ASSIGN(const auto file, open_numbered(numbered, model.path));
    TROUPE_TRY(check_steps_of_model(file, run));
    TROUPE_ASSIGN(auto part, read_deepspeed_part(files, model.mp, file, numbered, run, steps));
    if (part.stage != 0) TROUPE_TRY(steps.check_model(model.path, run, part.weights));
    if (remarks.empty()) remarks = std::move(part.remarks);
    if (format.empty()) format = format_of(part, grid);
    add_part(ranks[model.mp % grid.tensor], std::move(part));
  }
  for (uint32_t r = 0; r < grid.tensor && !files.layers.empty(); ++r) {
    std::swap(ranks[r].files, numbered);
    auto ok = add_layers(files, r, ranks[r]);
    std::swap(ranks[r].files, numbered);
    if (!ok) return fail(ok.error());
  }
  if (auto line = steps.settle(run)) remarks.push_back(std::move(*line));
  for (auto& rank : ranks) {
    rank.files = numbered;
    rank.folder = folder;
    rank.run = run;
    rank.format = format;
  }
  std::vector<unread_tensor> unread;
  for (const auto& t : ranks.front().unread)  // the other tensor-parallel ranks have slices of the same unread tensors
    if (std::ranges::find(unread, t.name, &unread_tensor::name) == unread.end()) unread.push_back(t);
  auto out =
      ranks.size() == 1 ? core::result<tensor_source>(std::move(ranks.front())) : joined(std::move(ranks), first);
  if (!out) return out;
  const auto is_moment = [](const tensor_entry& t) { return t.kind == tensor_kind::moment; };
  // If a folder has moments but no counter and states step 0, its writer did not know the number of steps.
  if (out->run.steps == 0U && !steps.has_counter() && std::ranges::any_of(out->tensors, is_moment)) {
    out->run.steps.reset();
    out->run.applied_updates.reset();
  }
  out->remarks.insert(out->remarks.begin(), remarks.begin(), remarks.end());
  out->unread = std::move(unread);
  say_unread(out->remarks, out->unread);
  TROUPE_TRY(complete(*out));
  if (grid.stages == 1 && files.layers.empty()) return out;
  return with_kept_names(std::move(*out));
}

constexpr source_format deepspeed_format{
    .described = "a DeepSpeed checkpoint",
    .in_folder = [](const fs::path& folder) -> core::result<likeness> {
      std::error_code ec;
      if (const fs::directory_iterator at(folder, ec); ec)
        return fail(error_kind::io, fmt::format("cannot list '{}': {}", folder.string(), ec.message()));
      return holds_deepspeed_files(folder) ? likeness::certain : likeness::none;
    },
    .open = [](const fs::path& folder, const source_options&) { return read_deepspeed_source(folder); },
    .has_module_names = true,
    .lies_below_config = true,
};

}  // namespace troupe::formats
