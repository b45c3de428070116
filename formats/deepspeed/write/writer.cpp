// Plans every file, then writes one after the other.
#include "formats/deepspeed/write/writer.hpp"

#include <fmt/format.h>

#include "formats/deepspeed/write/layout.hpp"
#include "formats/deepspeed/write/state.hpp"
#include "storage/files/folder_writing.hpp"

namespace troupe::formats {
namespace {

namespace fs = std::filesystem;
using core::dtype;

struct planned_file {
  std::string name;
  uint32_t rank = 0;
  bool optimizer = false;
};

/// Builds the optimizer states that ZeRO stages 1 and 2, and stage 3, store in shards.
class optimizer_states {
 public:
  optimizer_states(const deepspeed_parts& parts, torch_file& file, uint32_t rank)
      : parts_(parts), model_(parts.model), file_(file), rank_(rank) {}

  void fill() {
    file_.root.set("optimizer_state_dict", parts_.options.stage == 3 ? cut_parameters() : cut_groups());
    file_.root.set("ds_config", parts_.config).set("ds_version", parts_.options.ds_version);
  }

 private:
  /// Returns the elements of one group end to end: of the master if `which` is 0, of moment m if it is m + 1.
  torch_value flat(size_t group, const std::vector<flat_stretch>& stretches, size_t which) {
    std::vector<torch_file::stretch> out;
    for (const auto& s : stretches) {
      const tensor_entry* tensor = nullptr;
      if (s.parameter != flat_stretch::no_parameter) {
        const auto& p = model_.groups[group][s.parameter];
        tensor = which == 0 ? p.master : p.moments[which - 1];
      }
      out.push_back({tensor, s.first, s.count});
    }
    return file_.tensor(dtype::f32, {static_cast<int64_t>(elements_of(stretches))}, std::move(out));
  }
  torch_value moments(size_t group, const std::vector<flat_stretch>& stretches) {
    auto out = torch_value::dict();
    if (auto step = optimizer_step(parts_, file_)) out.set("step", std::move(*step));
    const auto& names = model_.groups[group].front().moments;
    for (size_t m = 0; m < names.size(); ++m) out.set(names[m]->moment, flat(group, stretches, m + 1));
    return out;
  }

  torch_value cut_groups() {
    auto state = torch_value::dict(), masters = torch_value::list(), paddings = torch_value::list(),
         counts = torch_value::list(), mappings = torch_value::list();
    std::vector<std::vector<int64_t>> params;
    for (size_t g = 0; g < model_.groups.size(); ++g) {
      const auto partition = partition_of_group(model_.numels(g), parts_.options.ranks, rank_);
      masters.push(flat(g, partition.stretches, 0));  // DeepSpeed stores masters without padding, but moments with it
      auto padded = partition.stretches;
      if (partition.padding > 0) padded.push_back({flat_stretch::no_parameter, 0, partition.padding});
      const auto number = static_cast<int64_t>(g);
      if (!model_.groups[g].front().moments.empty()) state.set(number, moments(g, padded));
      params.push_back({number});
      paddings.push(static_cast<int64_t>(partition.padding));
      counts.push(int64_t{parts_.options.ranks});
      auto mapping = torch_value::ordered_dict();
      uint64_t start = 0;
      for (const auto& s : partition.stretches) {
        auto address = torch_value::object("deepspeed.utils.tensor_fragment", "fragment_address");
        address.set("numel", static_cast<int64_t>(s.count)).set("start", static_cast<int64_t>(start));
        mapping.set(model_.groups[g][s.parameter].name, std::move(address));
        start += s.count;
      }
      mappings.push(std::move(mapping));
    }
    auto out = torch_value::dict();
    set_loss_scale(parts_, out);
    out.set("base_optimizer_state",
            torch_value::dict().set("state", std::move(state)).set("param_groups", parameter_groups(parts_, params)));
    out.set("single_partition_of_fp32_groups", std::move(masters));
    out.set("zero_stage", int64_t{parts_.options.stage});
    out.set("group_paddings", std::move(paddings)).set("partition_count", std::move(counts));
    out.set("ds_version", parts_.options.ds_version).set("param_slice_mappings", std::move(mappings));
    return out;
  }

  torch_value cut_parameters() {
    auto state = torch_value::dict(), masters = torch_value::list();
    std::vector<std::vector<int64_t>> params;
    int64_t number = 0;
    for (size_t g = 0; g < model_.groups.size(); ++g) {
      params.emplace_back();
      const auto numels = model_.numels(g);
      for (const auto& sub_group : sub_groups_of(numels, parts_.options.ranks, parts_.options.sub_group_size)) {
        const auto stretches = pieces_of_sub_group(numels, sub_group, parts_.options.ranks, rank_);
        masters.push(flat(g, stretches, 0));
        if (!model_.groups[g].front().moments.empty()) state.set(number, moments(g, stretches));
        params.back().push_back(number++);
      }
    }
    auto out = torch_value::dict();
    out.set("zero_stage", 3);
    set_loss_scale(parts_, out);
    out.set("partition_count", int64_t{parts_.options.ranks});
    out.set("optimizer_state_dict",
            torch_value::dict().set("state", std::move(state)).set("param_groups", parameter_groups(parts_, params)));
    out.set("fp32_flat_groups", std::move(masters));
    return out;
  }

  const deepspeed_parts& parts_;
  const deepspeed_model& model_;
  torch_file& file_;
  uint32_t rank_;
};

std::vector<planned_file> files_of(const deepspeed_write_options& o) {
  std::vector<planned_file> out;
  const char* prefix = o.weight_type == dtype::bf16 ? "bf16_" : "";
  const uint32_t mp = o.place.rank;
  if (o.stage < 3) out.push_back({fmt::format("mp_rank_{:02}_model_states.pt", mp), 0, false});
  for (uint32_t r = 0; r < o.ranks && o.stage == 3; ++r)
    out.push_back({fmt::format("zero_pp_rank_{}_mp_rank_{:02}_model_states.pt", r, mp), r, false});
  for (uint32_t r = 0; r < o.ranks && o.stage > 0; ++r)
    out.push_back({fmt::format("{}zero_pp_rank_{}_mp_rank_{:02}_optim_states.pt", prefix, r, mp), r, true});
  return out;
}

torch_file filled(const deepspeed_parts& parts, const planned_file& of, source_reader& reader) {
  torch_file out(reader);
  if (of.optimizer)
    optimizer_states(parts, out, of.rank).fill();
  else
    fill_model_states(parts, out, parts.options.stage, of.rank);
  return out;
}

core::result<void> check_options(const deepspeed_write_options& o) {
  const auto bad = [](const std::string& what) { return fail(error_kind::bad_input, what); };
  if (o.stage > 3) return bad(fmt::format("a DeepSpeed folder of stage {}: there are stages 0 to 3", o.stage));
  if (o.ranks == 0 || o.ranks > max_deepspeed_ranks)
    return bad(fmt::format("a DeepSpeed folder for {} ranks: wanted 1 to {}", o.ranks, max_deepspeed_ranks));
  if (o.weight_type != dtype::f32 && o.weight_type != dtype::bf16 && o.weight_type != dtype::f16)
    return bad(
        fmt::format("a DeepSpeed folder of {} weights: wanted fp32, bf16 or fp16", core::name_of(o.weight_type)));
  if (o.sub_group_size == 0 || o.groups.empty())
    return bad("a DeepSpeed folder needs a parameter group and a sub_group_size above 0");
  return {};
}

}  // namespace

core::result<deepspeed_report> write_deepspeed_folder(const tensor_source& from, const fs::path& root,
                                                      const deepspeed_write_options& options,
                                                      storage::file_system& files) {
  const std::string tag =
      options.tag.value_or(fmt::format("global_step{}", from.run.steps.value_or(from.run.applied_updates.value_or(0))));
  TROUPE_TRY(check_options(options));
  TROUPE_ASSIGN(const auto model, deepspeed_model_of(from, options, unknown_order::refuse));
  TROUPE_ASSIGN(const auto parts, deepspeed_parts_of(from, options, model));
  source_reader reader(from, files);
  const auto plan = files_of(options);
  deepspeed_report report{root / tag, 0, plan.size()};
  for (const auto& p : plan) report.bytes += filled(parts, p, reader).bytes();

  TROUPE_ASSIGN(auto writing, storage::folder_writing::begin(files, root, tag, report.bytes));
  const auto written = [&](uint64_t bytes) { return writing.wrote(bytes, options.progress); };
  for (const auto& p : plan) {
    const auto file = filled(parts, p, reader);
    TROUPE_TRY(write_torch_archive(writing.working() / p.name, file.root, file.storages(), written));
  }
  TROUPE_TRY(writing.commit("latest"));
  return report;
}

}  // namespace troupe::formats
