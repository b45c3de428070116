// For hosts that come from DeepSpeed: the functions that they know by name, each with what stands for it here. A small
// model is written, cut, joined and compared in a folder of its own; no session is needed for any of it.
#include <stdlib.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/commit/tag_validation.hpp"
#include "checkpoint/convert/open_source.hpp"
#include "checkpoint/convert/reshape.hpp"
#include "formats/deepspeed/checkpoint_index.hpp"
#include "formats/deepspeed/state_dict_factory.hpp"
#include "formats/source/scatter_read.hpp"
#include "formats/source/state_dict.hpp"
#include "formats/torch/archive_writer.hpp"
#include "plan/layout/writer_assignment.hpp"
#include "small_model.hpp"

namespace host {

constexpr double qkv_version = 2.0;            // Megatron's checkpoint_version: heads lie one behind the other
constexpr double archive_overhead_max = 0.01;  // of the tensors' bytes

/// torch.save writes all memory that a tensor is a view of: here every file would have the moments, too. DeepSpeed
/// copies the tensors first; here each has its own bytes in the file and nothing is copied.
outcome clone_tensors_for_torch_save(const example& e) {
  std::vector<formats::tensor_to_write> tensors;
  for (const auto& p : e.model.parameters)
    tensors.push_back({p.name, core::dtype::f32, p.shape, std::as_bytes(e.model.values(p))});
  if (auto ok = formats::write_torch_archive(e.weights(), tensors); !ok) return ok;
  const auto bytes = static_cast<double>(e.model.elements * sizeof(float));
  const double more = static_cast<double>(fs::file_size(e.weights())) / bytes - 1;
  std::printf("torch.save: %.0f bytes of tensors, the file has %.3f %% more\n", bytes, 100 * more);
  if (auto ok = wanted(more <= archive_overhead_max, "the file is more than 1 % larger than its tensors"); !ok)
    return ok;
  const auto source = checkpoint::open_source(e.weights());
  if (!source) return core::fail(source.error());
  const auto back = formats::load_state_dict(*source);
  return back ? same(*back, e.model, "weights.pt") : outcome(core::fail(back.error()));
}

/// DeepSpeed answers with the old ranks of each new one, and only for fewer; reshape() writes the files, in both
/// directions, with the optimizer's states.
outcome reshape_meg_2d(const example& e) {
  const auto map = formats::reshape_2d({.pipeline = 2, .tensor = 2}, {.pipeline = 2, .tensor = 1});
  if (!map) return core::fail(map.error());
  if (auto ok = wanted(*map == formats::file_lists{{0, 1}, {2, 3}}, "reshape_meg_2d: other ranks are joined"); !ok)
    return ok;

  auto from = source_of(e);
  if (!from) return core::fail(from.error());
  checkpoint::reshape_options options;
  options.to = {.pipeline = 1, .tensor = 2, .data = 2};
  options.qkv_version = qkv_version;
  options.write.stage = 2;
  const auto ranks = checkpoint::reshape(*from, e.in_ranks(), options);
  if (!ranks) return core::fail(ranks.error());

  from = checkpoint::open_source(e.in_ranks());
  if (!from) return core::fail(from.error());
  options.to = {.pipeline = 2, .tensor = 2, .data = 1};
  options.qkv_version.reset();  // the folder says it
  options.write.stage = 1;
  const auto stages = checkpoint::reshape(*from, e.in_stages(), options);
  if (!stages) return core::fail(stages.error());
  // Of each model-parallel rank a model file and the optimizer's shards; of a pipeline its layers', too: the embedding,
  // two transformer layers, the final norm.
  return wanted(ranks->files == 2 + 4 && stages->files == 4 + 4 + 2 * 4, "reshape: another number of files");
}

outcome get_fp32_state_dict_from_zero_checkpoint(const example& e) {
  for (const auto& folder : {e.in_ranks(), e.in_stages()}) {
    const auto source = checkpoint::open_source(folder);
    if (!source) return core::fail(source.error());
    const auto weights = formats::load_state_dict(*source);
    if (!weights) return core::fail(weights.error());
    if (auto ok = same(*weights, e.model, folder.filename()); !ok) return ok;
  }
  return {};
}

/// One file that torch.load opens. What does not fit into memory is `troupe checkpoint to-fp32`'s.
outcome convert_zero_checkpoint_to_fp32_state_dict(const example& e) {
  const fs::path file = e.folder / "pytorch_model.bin";
  auto source = checkpoint::open_source(e.in_ranks());
  if (!source) return core::fail(source.error());
  auto weights = formats::load_state_dict(*source);
  if (!weights) return core::fail(weights.error());
  std::vector<formats::tensor_to_write> tensors;
  for (const auto& [name, t] : *weights)
    tensors.push_back({name, core::dtype::f32, t.shape, std::as_bytes(std::span(*t.values))});
  if (auto ok = formats::write_torch_archive(file, tensors); !ok) return ok;
  source = checkpoint::open_source(file);
  if (!source) return core::fail(source.error());
  weights = formats::load_state_dict(*source);
  return weights ? same(*weights, e.model, "pytorch_model.bin") : outcome(core::fail(weights.error()));
}

/// Into memory that the host has already, each byte read once: here a buffer that lies like the model's own.
outcome load_state_dict_from_zero_checkpoint(const example& e) {
  const auto source = checkpoint::open_source(e.in_ranks());
  if (!source) return core::fail(source.error());
  std::vector<float> host(e.model.elements);
  std::vector<formats::scattered_tensor> targets;
  for (const auto& p : e.model.parameters) {
    const auto* tensor = formats::find_tensor(*source, p.name, formats::tensor_kind::master);
    if (auto ok = wanted(tensor != nullptr && tensor->shape == p.shape, "a parameter is missing"); !ok) return ok;
    auto* const to = reinterpret_cast<std::byte*>(host.data() + p.first);
    targets.push_back({tensor, {{0, p.count(), core::dtype::f32, to}}});
  }
  const auto read = formats::read_scattered(storage::real_files(), *source, targets);
  if (!read) return core::fail(read.error());
  return wanted(std::equal(host.begin(), host.end(), e.model.buffer.begin()), "the host's memory has other weights");
}

/// The pipeline's folder as one tensor-parallel rank of each stage sees it: which files, and their tensors joined.
outcome deepspeed_checkpoint(const example& e) {
  formats::index_options options;
  options.tensor = 1;
  const auto index = formats::checkpoint_index::open(e.in_stages(), options);
  if (!index) return core::fail(index.error());
  const formats::parallel_degrees written{.pipeline = 2, .tensor = 2, .data = 1};
  if (auto ok = wanted(index->written() == written, "DeepSpeedCheckpoint: other degrees"); !ok) return ok;

  // Of the second stage's one rank: files, and the optimizer's states of both ranks in one.
  const auto model_files = index->model_files_of(1, 0), zero_files = index->zero_files_of(1, 0, 0);
  if (!model_files) return core::fail(model_files.error());
  if (!zero_files) return core::fail(zero_files.error());
  if (auto ok = wanted(model_files->size() == 2 && zero_files->size() == 2, "DeepSpeedCheckpoint: other files"); !ok)
    return ok;
  const auto shard = index->state_for_rank(1, 0, 0);
  if (!shard) return core::fail(shard.error());
  if (auto ok = wanted(shard->value.find("optimizer_state_dict") != nullptr, "DeepSpeedCheckpoint: no optimizer"); !ok)
    return ok;

  // Its layer, as it was before it was cut.
  const auto joined = index->transformer_state(1, 0);
  if (!joined) return core::fail(joined.error());
  if (auto ok = wanted(joined->size() == 1, "DeepSpeedCheckpoint: another number of layers"); !ok) return ok;
  const auto weights = formats::load_state_dict(joined->front());
  if (!weights) return core::fail(weights.error());
  size_t found = 0;
  for (const auto& p : e.model.parameters) {
    if (!p.name.starts_with(last_layer)) continue;
    const auto at = weights->find(p.name.substr(last_layer.size()));
    if (at == weights->end() || at->second.shape != p.shape ||
        !std::ranges::equal(*at->second.values, e.model.values(p)))
      return core::fail(core::error_kind::mismatch, "DeepSpeedCheckpoint: " + p.name + " is not joined as it was cut");
    ++found;
  }
  return wanted(found == weights->size(), "DeepSpeedCheckpoint: the layer has more than was written");
}

/// SDLoaderFactory.get_sd_loader_json(list).load(mp_world_size, mp_rank): of the files of two tensor-parallel ranks,
/// the module of one rank and those of four.
outcome state_dict_factory(const example& e) {
  std::ofstream(e.list())
      << R"({"type": "Megatron", "version": 2.0, "parallelization": "tp", "mp_size": 2, "checkpoints":
    ["ranks/global_step5/mp_rank_00_model_states.pt", "ranks/global_step5/mp_rank_01_model_states.pt"]})";
  const auto list = formats::read_checkpoint_list(e.list());
  if (!list) return core::fail(list.error());

  const auto load = [&](uint32_t ranks, uint32_t rank) -> core::result<state_dict> {
    formats::module_load_options options;
    options.mp_world_size = ranks;
    options.mp_rank = rank;
    options.version = list->version;
    const auto loaded = formats::load_module(list->checkpoints, options);
    if (!loaded) return core::fail(loaded.error());
    return formats::load_state_dict(loaded->module);
  };
  const auto whole = load(1, 0);
  if (!whole) return core::fail(whole.error());
  if (auto ok = same(*whole, e.model, "SDLoaderFactory, joined"); !ok) return ok;

  // Of a matrix that is cut along its rows each of the four has the next quarter; of what is not cut, all.
  const auto& matrix =
      *std::ranges::find(e.model.parameters, first_layer + "mlp.dense_h_to_4h.weight", &parameter::name);
  std::vector<float> quarters;
  for (uint32_t rank = 0; rank < 4; ++rank) {
    const auto part = load(4, rank);
    if (!part) return core::fail(part.error());
    const auto& values = *part->at(matrix.name).values;
    quarters.insert(quarters.end(), values.begin(), values.end());
    if (auto ok = wanted(values.size() == matrix.count() / 4 &&
                             part->at("transformer.final_layernorm.weight").shape == std::vector<int64_t>{width},
                         "SDLoaderFactory, cut: another shape");
        !ok)
      return ok;
  }
  if (auto ok = wanted(std::ranges::equal(quarters, e.model.values(matrix)), "SDLoaderFactory, cut: other rows"); !ok)
    return ok;
  return wanted(!load(3, 0), "SDLoaderFactory: two files were cut for three ranks");
}

/// engine._checkpoint_tag_validation: whether ranks that save together mean the same checkpoint. How their tags come
/// together is the host's business.
outcome checkpoint_tag_validation(const example&) {
  using enum checkpoint::tag_validation;
  const std::vector<std::string> alike(4, "step5"), others = {"step5", "step5", "step6", "step5"};
  std::vector<std::string> said;
  const auto say = [&](const std::string& sentence) { said.push_back(sentence); };
  if (checkpoint::tag_validation_from("Warn") != warn)
    return core::fail(core::error_kind::mismatch, "tag_validation: 'Warn' is another mode");
  if (!checkpoint::validate_tags(alike, fail, say) || !checkpoint::validate_tags(others, ignore, say) || !said.empty())
    return core::fail(core::error_kind::mismatch, "tag_validation: tags were refused that must not be");
  if (!checkpoint::validate_tags(others, warn, say) || said.size() != 1)
    return core::fail(core::error_kind::mismatch, "tag_validation: other tags were not told once");
  const auto refused = checkpoint::validate_tags(others, fail, say);
  return wanted(!refused && refused.error().text.find("rank 2 'step6'") != std::string::npos,
                "tag_validation: the rank with another tag is not named");
}

/// checkpoint.writer: who of eight ranks on two machines writes how many parts of what they hold alike, and of what the
/// replicas of two experts hold.
outcome checkpoint_writer(const example& e) {
  using enum plan::writer_unit;
  const auto writers_of = [](const auto& shares) {
    std::vector<uint32_t> out;
    for (uint32_t rank = 0; rank < shares.size(); ++rank)
      if (shares[rank]) out.push_back(rank);
    return out;
  };
  plan::writer_layout layout{.ranks = 8, .machines = 2};
  const std::map<plan::writer_unit, std::vector<uint32_t>> known = {
      {single, {0}}, {replica, {0, 1, 2, 3, 4, 5, 6, 7}}, {socket, {0, 2, 4, 6}}, {machine, {0, 4}}};
  for (const auto& [unit, ranks] : known) {
    layout.unit = unit;
    const auto shares = plan::assign_writers(layout);
    if (!shares) return core::fail(shares.error());
    if (auto ok = wanted(writers_of(*shares) == ranks, "checkpoint.writer: other ranks write"); !ok) return ok;
    // Their parts are all bytes of the file, each once.
    const uint64_t total = fs::file_size(e.weights());
    uint64_t reached = 0;
    for (const uint32_t rank : ranks) {
      const auto part = plan::even_range(total, (*shares)[rank]->writers, (*shares)[rank]->index);
      if (part.first != reached) break;
      reached += part.bytes;
    }
    if (auto ok = wanted(reached == total, "checkpoint.writer: the parts are not the file"); !ok) return ok;
  }
  layout.experts = 2;
  layout.unit = machine;
  const auto experts = plan::assign_expert_writers(layout);
  if (!experts) return core::fail(experts.error());
  return wanted(writers_of(*experts) == std::vector<uint32_t>{0, 5}, "checkpoint.writer: experts on one machine");
}

/// In order: later ones read what earlier ones wrote.
outcome all_of(const example& e) {
  for (const auto function : {clone_tensors_for_torch_save, reshape_meg_2d, get_fp32_state_dict_from_zero_checkpoint,
                              convert_zero_checkpoint_to_fp32_state_dict, load_state_dict_from_zero_checkpoint,
                              deepspeed_checkpoint, state_dict_factory, checkpoint_tag_validation, checkpoint_writer})
    if (auto ok = function(e); !ok) return ok;
  return {};
}

}  // namespace host

int main() {
  using namespace host;
  std::string name = (fs::temp_directory_path() / "deepspeed-functions-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) {
    std::perror(name.c_str());
    return 1;
  }
  example e;
  e.folder = name;
  outcome done;
  try {
    done = all_of(e);
  } catch (const std::exception& thrown) {  // the standard library's: a file or a name that is not there
    done = core::fail(core::error_kind::io, thrown.what());
  }
  std::error_code ignored;
  fs::remove_all(e.folder, ignored);
  if (!done) std::fprintf(stderr, "deepspeed_functions: %s\n", done.error().text.c_str());
  return done ? 0 : 1;
}
