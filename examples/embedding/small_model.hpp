// The data of deepspeed_functions.cpp: a small Megatron model in one buffer, the paths of its files, and the comparison
// of values that were read with the values that were written.
#pragma once

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/convert/checkpoints.hpp"

namespace host {

using namespace troupe;
namespace fs = std::filesystem;
using outcome = core::result<void>;
using state_dict = std::map<std::string, formats::fp32_tensor>;

inline constexpr int64_t width = 128, rows = 256;
inline const std::string first_layer = "transformer.layers.0.", last_layer = "transformer.layers.1.";

/// Returns an error with `sentence` unless the condition holds.
inline outcome wanted(bool holds, const std::string& sentence) {
  if (holds) return {};
  return core::fail(core::error_kind::mismatch, sentence);
}

struct parameter {
  std::string name;
  std::vector<int64_t> shape;
  size_t first = 0;  // index of the parameter's first element in the buffer

  [[nodiscard]] size_t count() const { return core::numel_of(shape); }
};

/// Parameters in one buffer, one after the other, as ZeRO stores them, followed by two moments of all parameters.
struct flat_model {
  std::vector<parameter> parameters;
  std::vector<float> buffer;
  size_t elements = 0;  // number of elements of all parameters, without moments

  void add(const std::string& name, std::vector<int64_t> shape) {
    parameters.push_back({name, std::move(shape), elements});
    elements += parameters.back().count();
  }
  [[nodiscard]] std::span<const float> values(const parameter& p) const {
    return std::span(buffer).subspan(p.first, p.count());
  }
};

inline flat_model make_model() {
  flat_model m;
  m.add("embedding.word_embeddings.weight", {rows, width});
  for (const auto& layer : {first_layer, last_layer}) {
    m.add(layer + "input_layernorm.weight", {width});
    m.add(layer + "self_attention.query_key_value.weight", {3 * width, width});
    m.add(layer + "self_attention.query_key_value.bias", {3 * width});
    m.add(layer + "self_attention.dense.weight", {width, width});
    m.add(layer + "mlp.dense_h_to_4h.weight", {4 * width, width});
    m.add(layer + "mlp.dense_h_to_4h.bias", {4 * width});
    m.add(layer + "mlp.dense_4h_to_h.weight", {width, 4 * width});
  }
  m.add("transformer.final_layernorm.weight", {width});
  // All elements differ, so that a comparison detects every element at a wrong offset.
  for (size_t i = 0; i < 3 * m.elements; ++i) m.buffer.push_back(static_cast<float>(i) / 1024);
  return m;
}

/// Checks that `got` contains exactly the parameters of `m`, with equal bits.
inline outcome same(const state_dict& got, const flat_model& m, const std::string& where) {
  if (auto ok = wanted(got.size() == m.parameters.size(), where + ": another number of tensors"); !ok) return ok;
  for (const auto& p : m.parameters) {
    const auto at = got.find(p.name);
    if (at == got.end() || at->second.shape != p.shape || !std::ranges::equal(*at->second.values, m.values(p)))
      return core::fail(core::error_kind::mismatch, where + ": " + p.name + " is not what was written");
  }
  return {};
}

/// The model and the paths of its files.
struct example {
  flat_model model = make_model();
  fs::path folder;

  [[nodiscard]] fs::path in_ranks() const { return folder / "ranks"; }      // 2 tensor-parallel x 2 data-parallel ranks
  [[nodiscard]] fs::path in_stages() const { return folder / "stages"; }    // 2 stages x 2 tensor-parallel ranks
  [[nodiscard]] fs::path weights() const { return folder / "weights.pt"; }  // in the format of torch.save
  [[nodiscard]] fs::path list() const { return folder / "checkpoints.json"; }  // list of files for SDLoaderFactory
};

/// Returns the model as a source of tensors that is no checkpoint: masters and moments at given offsets of a file.
inline core::result<formats::tensor_source> source_of(const example& e) {
  formats::tensor_source out;
  const fs::path file = e.folder / "buffer";
  const auto bytes = std::as_bytes(std::span(e.model.buffer));
  std::ofstream stream(file, std::ios::binary);
  stream.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  stream.close();
  if (!stream) return core::fail(core::error_kind::io, "'" + file.string() + "' cannot be written");
  out.folder = e.folder;
  out.files = {{file, bytes.size()}};
  out.run.steps = out.run.applied_updates = 5;
  for (const auto& p : e.model.parameters) {
    out.parameter_order.push_back(p.name);
    size_t first = p.first;
    for (const char* moment : {"", "exp_avg", "exp_avg_sq"}) {
      const auto kind = *moment == '\0' ? formats::tensor_kind::master : formats::tensor_kind::moment;
      out.tensors.push_back(
          {p.name, kind, moment, core::dtype::f32, p.shape, {{0, 0, p.count(), first * sizeof(float), {}}}});
      first += e.model.elements;
    }
  }
  if (auto ok = formats::complete(out); !ok) return core::fail(ok.error());
  return out;
}

}  // namespace host
