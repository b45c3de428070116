// Writes one small file for each state of a parameter, then the files that all parameters share.
#include "formats/deepspeed/write/universal_writer.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/tensor_view.hpp"
#include "formats/deepspeed/write/state.hpp"
#include "formats/names/name_pattern.hpp"
#include "formats/safetensors/header.hpp"
#include "storage/files/folder_writing.hpp"

namespace troupe::formats {
namespace {

namespace fs = std::filesystem;
using core::dtype;

constexpr double universal_version = 0.4;
constexpr size_t max_folder_name_bytes = 250;  // below the maximum of file systems, also with `.pt` appended
constexpr uint32_t stages_of_whole_groups = 2, stage_of_cut_parameters = 3;

bool names_a_folder(const std::string& name) {
  return !name.empty() && name.size() <= max_folder_name_bytes && name != "." && name != ".." &&
         name.find_first_of(std::string_view("/\0", 2)) == std::string::npos;
}

class matcher {
 public:
  static core::result<matcher> of(const std::vector<std::string>& patterns) {
    matcher out;
    for (const auto& p : patterns) {
      TROUPE_ASSIGN(auto pattern, name_pattern::of(p));
      out.all_.push_back(std::move(pattern));
    }
    return out;
  }
  [[nodiscard]] bool operator()(const std::string& name) const {
    return std::ranges::any_of(all_, [&](const name_pattern& p) { return p.matches(name); });
  }

 private:
  std::vector<name_pattern> all_;
};

class universal_writer {
 public:
  universal_writer(const deepspeed_parts& parts, source_reader& reader, const published_patterns& patterns)
      : parts_(parts), reader_(reader), patterns_(patterns) {}

  core::result<void> prepare() {
    const std::pair<matcher*, const std::vector<std::string>*> all[] = {{&replicated_, &patterns_.replicated},
                                                                        {&row_parallel_, &patterns_.row_parallel},
                                                                        {&two_parts_, &patterns_.two_parts},
                                                                        {&vocabulary_, &patterns_.vocabulary}};
    for (const auto& [to, patterns] : all) {
      TROUPE_ASSIGN(auto made, matcher::of(*patterns));
      *to = std::move(made);
    }
    if (!patterns_.vocabulary.empty() && !patterns_.original_vocab_size)
      return fail(error_kind::bad_input, "patterns of vocabulary parameters require the original vocabulary's size");
    for (const auto& group : parts_.model.groups)
      for (const auto& p : group) {
        if (!names_a_folder(p.name))
          return fail(error_kind::bad_input, fmt::format("'{}' cannot name a folder", shown(p.name)));
        for (const auto* m : p.moments)
          if (!names_a_folder(m->moment) || m->moment == "fp32" || m->moment == "step")
            return fail(error_kind::bad_input, fmt::format("moment '{}' cannot name a file", shown(m->moment)));
        if (vocabulary_(p.name) &&
            (p.master->shape.size() != 2 || p.master->shape[0] < static_cast<int64_t>(*patterns_.original_vocab_size)))
          return fail(error_kind::bad_input,
                      fmt::format("'{}' is not the matrix of a vocabulary: wanted {} rows or more", shown(p.name),
                                  *patterns_.original_vocab_size));
      }
    return {};
  }

  /// Calls write(path, file) for every file, in order, and before that make(path) for its folder.
  template <class Make, class Write>
  core::result<size_t> each(const Make& make, const Write& write) {
    size_t count = 0;
    const auto put = [&](const fs::path& path, const torch_file& file) {
      ++count;
      return write(path, file);
    };
    TROUPE_TRY(make("zero"));
    for (const auto& group : parts_.model.groups)
      for (const auto& p : group) {
        const fs::path folder = fs::path("zero") / p.name;
        TROUPE_TRY(make(folder));
        TROUPE_TRY(put(folder / "fp32.pt", state(p, *p.master)));
        for (const auto* m : p.moments) TROUPE_TRY(put(folder / (m->moment + ".pt"), state(p, *m)));
        if (p.moments.empty()) continue;
        torch_file step(reader_);
        auto count = optimizer_step(parts_, step);
        if (!count) continue;
        step.root = std::move(*count);
        TROUPE_TRY(put(folder / "step.pt", step));
      }
    TROUPE_TRY(put(fs::path("zero") / "optimizer_state.pt", optimizer_state()));
    TROUPE_TRY(put("mp_rank_00_model_states.pt", model_states(stages_of_whole_groups)));
    TROUPE_TRY(put("zero_pp_rank_0_mp_rank_00_model_states.pt", model_states(stage_of_cut_parameters)));
    return count;
  }

 private:
  torch_file state(const deepspeed_parameter& p, const tensor_entry& t) const {
    torch_file out(reader_);
    const bool vocabulary = vocabulary_(p.name);
    auto shape = t.shape;
    if (vocabulary) shape[0] = static_cast<int64_t>(*patterns_.original_vocab_size);
    const uint64_t numel = core::numel_of(shape);
    out.root.set("param", out.tensor(dtype::f32, shape, {{&t, 0, numel}}));
    if (two_parts_(p.name))
      out.root.set("cat_dim", 0).set("param_n_sub_params", 2);
    else if (!replicated_(p.name))
      out.root.set("cat_dim", row_parallel_(p.name) ? 1 : 0);
    if (vocabulary) out.root.set("vocab_tensor", true);
    return out;
  }

  /// Makes the file optimizer_state.pt, which all parameters share. The file has `param_groups` twice: DeepSpeed reads
  /// the key at the top at stages 1 and 2, and within `optimizer_state_dict` at stage 3.
  torch_file optimizer_state() const {
    torch_file out(reader_);
    auto& root = out.root;
    set_loss_scale(parts_, root);
    auto zeros = torch_value::list(), counts = torch_value::list();
    std::vector<std::vector<int64_t>> params;
    auto state = torch_value::dict();
    for (size_t g = 0; g < parts_.model.groups.size(); ++g) {
      zeros.push(0);
      counts.push(1);
      params.push_back({static_cast<int64_t>(g)});
      if (parts_.model.groups[g].front().moments.empty()) continue;
      if (auto step = optimizer_step(parts_, out))
        state.set(static_cast<int64_t>(g), torch_value::dict().set("step", std::move(*step)));
    }
    const auto groups = parameter_groups(parts_, params);
    root.set("zero_stage", int64_t{stages_of_whole_groups});
    root.set("group_paddings", std::move(zeros)).set("partition_count", std::move(counts));
    root.set("ds_version", parts_.options.ds_version).set("param_groups", groups);
    root.set("optimizer_state_dict", torch_value::dict().set("state", std::move(state)).set("param_groups", groups));
    return out;
  }

  torch_file model_states(uint32_t stage) const {
    torch_file out(reader_);
    fill_model_states(parts_, out, stage, 0);
    const auto list = [](const std::vector<std::string>& patterns) {
      return torch_value::list({patterns.begin(), patterns.end()});
    };
    auto info = torch_value::dict();
    info.set("universal_checkpoint_version", universal_version);
    info.set("tp_replicated_parameter_patterns", list(patterns_.replicated));
    info.set("parameter_with_row_parallelism_patterns", list(patterns_.row_parallel));
    info.set("parameter_with_2_sub_params_cat_dim_0", list(patterns_.two_parts));
    info.set("vocabulary_parameter_patterns", list(patterns_.vocabulary));
    if (patterns_.original_vocab_size)
      info.set("original_vocab_size", static_cast<int64_t>(*patterns_.original_vocab_size));
    out.root.set("universal_checkpoint_info", std::move(info));
    return out;
  }

  const deepspeed_parts& parts_;
  source_reader& reader_;
  const published_patterns& patterns_;
  matcher replicated_, row_parallel_, two_parts_, vocabulary_;
};

}  // namespace

core::result<deepspeed_report> write_universal_folder(const tensor_source& from, const fs::path& folder,
                                                      const deepspeed_write_options& options,
                                                      const published_patterns& patterns, storage::file_system& files) {
  auto settled = options;
  settled.stage = stages_of_whole_groups;
  settled.ranks = 1;
  TROUPE_ASSIGN(const auto model, deepspeed_model_of(from, settled, unknown_order::by_name));
  TROUPE_ASSIGN(const auto parts, deepspeed_parts_of(from, settled, model));
  source_reader reader(from, files);
  universal_writer writer(parts, reader, patterns);
  TROUPE_TRY(writer.prepare());

  const fs::path root = folder.has_parent_path() ? folder.parent_path() : fs::path(".");
  deepspeed_report report{folder, 0, 0};
  const auto nothing = [](const fs::path&) -> core::result<void> { return {}; };
  const auto count = [&](const fs::path&, const torch_file& file) -> core::result<void> {
    report.bytes += file.bytes();
    return {};
  };
  (void)writer.each(nothing, count);
  TROUPE_ASSIGN(auto writing, storage::folder_writing::begin(files, root, folder.filename().string(), report.bytes));
  const auto written = [&](uint64_t bytes) { return writing.wrote(bytes, options.progress); };
  TROUPE_ASSIGN(report.files, writer.each([&](const fs::path& path) { return writing.make_folder(path); },
                                          [&](const fs::path& path, const torch_file& file) {
                                            return write_torch_archive(writing.working() / path, file.root,
                                                                       file.storages(), written);
                                          }));
  TROUPE_TRY(writing.commit("latest_universal"));
  return report;
}

}  // namespace troupe::formats
