// Shows, for each of DeepSpeed's checkpoint functions by its name, the functions of Troupe that replace it. A small
// model is written, split, joined and compared in a temporary folder; no session is needed.
#include <stdlib.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/convert/checkpoints.hpp"
#include "small_model.hpp"

namespace host {

constexpr double qkv_version = 2.0;            // Megatron's checkpoint_version: q, k, v of a head are neighbours
constexpr double archive_overhead_max = 0.01;  // largest overhead of a file, as a fraction of the tensors' bytes

/// Writes a file of torch.save with the bytes of the parameters only. torch.save itself writes the whole memory that a
/// tensor is a view of, moments included, unless the tensors are copied first, as DeepSpeed does; Troupe copies
/// nothing.
outcome clone_tensors_for_torch_save(const example& e) {
  const auto model = source_of(e);
  if (!model) return core::fail(model.error());
  const auto written = checkpoint::export_weights(*model, {.out = e.weights()});
  if (!written) return core::fail(written.error());
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

/// Reshapes a checkpoint to other parallel degrees. DeepSpeed's function only returns the old ranks that each new rank
/// joins, for fewer ranks; reshape() writes the files, also for more ranks, with the optimizer's states.
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
  options.qkv_version.reset();  // the folder stores the version
  options.write.stage = 1;
  const auto stages = checkpoint::reshape(*from, e.in_stages(), options);
  if (!stages) return core::fail(stages.error());
  // Each model-parallel rank has a model file and the optimizer's shards. A pipeline also has a file per tensor rank
  // for each of its layers: the embedding, two transformer layers, the final norm.
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

/// Writes one file that torch.load opens, as `troupe checkpoint to-fp32` does. The weights are streamed, so memory does
/// not grow with the model.
outcome convert_zero_checkpoint_to_fp32_state_dict(const example& e) {
  const fs::path file = e.folder / "pytorch_model.bin";
  auto source = checkpoint::open_source(e.in_ranks());
  if (!source) return core::fail(source.error());
  const auto written = checkpoint::export_weights(*source, {.out = file});
  if (!written) return core::fail(written.error());
  source = checkpoint::open_source(file);
  if (!source) return core::fail(source.error());
  const auto weights = formats::load_state_dict(*source);
  return weights ? same(*weights, e.model, "pytorch_model.bin") : outcome(core::fail(weights.error()));
}

/// Reads the weights of a checkpoint into memory that the host has allocated: a buffer with the layout of the model's.
outcome load_state_dict_from_zero_checkpoint(const example& e) {
  const auto source = checkpoint::open_source(e.in_ranks());
  if (!source) return core::fail(source.error());
  std::vector<float> host(e.model.elements);
  formats::source_reader reader(*source);
  for (const auto& p : e.model.parameters) {
    const auto* tensor = formats::find_tensor(*source, p.name, formats::tensor_kind::master);
    if (auto ok = wanted(tensor != nullptr && tensor->shape == p.shape, "a parameter is missing"); !ok) return ok;
    const auto to = std::as_writable_bytes(std::span(host).subspan(p.first, p.count()));
    if (auto ok = reader.read_as(core::dtype::f32, *tensor, 0, p.count(), to); !ok) return ok;
  }
  return wanted(std::equal(host.begin(), host.end(), e.model.buffer.begin()), "the host's memory has other weights");
}

/// Opens the checkpoint with pipeline stages for a job with one tensor-parallel rank per stage: lists the files that
/// the rank reads, and joins their tensors.
outcome deepspeed_checkpoint(const example& e) {
  formats::index_options options;
  options.tensor = 1;
  const auto index = formats::checkpoint_index::open(e.in_stages(), options);
  if (!index) return core::fail(index.error());
  const formats::parallel_degrees written{.pipeline = 2, .tensor = 2, .data = 1};
  if (auto ok = wanted(index->written() == written, "DeepSpeedCheckpoint: other degrees"); !ok) return ok;

  // Returns the files for the only rank of the second stage, and joins the optimizer's states of both old ranks.
  const auto model_files = index->model_files_of(1, 0), zero_files = index->zero_files_of(1, 0, 0);
  if (!model_files) return core::fail(model_files.error());
  if (!zero_files) return core::fail(zero_files.error());
  if (auto ok = wanted(model_files->size() == 2 && zero_files->size() == 2, "DeepSpeedCheckpoint: other files"); !ok)
    return ok;
  const auto shard = index->state_for_rank(1, 0, 0);
  if (!shard) return core::fail(shard.error());
  if (auto ok = wanted(shard->value.find("optimizer_state_dict") != nullptr, "DeepSpeedCheckpoint: no optimizer"); !ok)
    return ok;

  // The joined layer of that stage must have the values that it had before it was split.
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

/// Replaces SDLoaderFactory.get_sd_loader_json(list).load(mp_world_size, mp_rank): loads the files of two
/// tensor-parallel ranks as the module of one rank, and as the modules of four.
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

  // Each of four ranks has a quarter of a matrix that is split along its rows, in rank order, and whole parameters that
  // are not split.
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

/// Calls all functions in order, because later ones read files that earlier ones have written.
outcome all_of(const example& e) {
  for (const auto function : {clone_tensors_for_torch_save, reshape_meg_2d, get_fp32_state_dict_from_zero_checkpoint,
                              convert_zero_checkpoint_to_fp32_state_dict, load_state_dict_from_zero_checkpoint,
                              deepspeed_checkpoint, state_dict_factory})
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
  } catch (const std::exception& thrown) {  // thrown by the standard library, for example for a missing file
    done = core::fail(core::error_kind::io, thrown.what());
  }
  std::error_code ignored;
  fs::remove_all(e.folder, ignored);
  if (!done) std::fprintf(stderr, "deepspeed_functions: %s\n", done.error().text.c_str());
  return done ? 0 : 1;
}
