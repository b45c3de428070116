// Measures forward and backward of a model by kind of segment on one thread: where the time of a step goes. Measures
// processor time, which a busy machine disturbs less; on a quiet one it equals wall time.
// Usage: bench_model [fp32|bf16|fp16|fp64] [rows] [repeats] ['{"model_type": ...}']
// Bound to compare with: matrix products alone take 0.67 s (fp32) and 0.31 s (bf16) for the default model on a core of
// the reference machine.
#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <map>
#include <string>
#include <vector>

#include "models/families/language_model.hpp"
#include "models/segment/torch_values.hpp"

namespace {

using namespace troupe;

constexpr const char* default_model =
    R"({"model_type": "gpt2", "n_layer": 6, "n_embd": 384, "n_head": 6, "n_positions": 256, "vocab_size": 256,
        "resid_pdrop": 0, "embd_pdrop": 0, "attn_pdrop": 0})";

class overwriting_sink final : public models::gradient_sink {
 public:
  overwriting_sink(const core::model_table& table, core::dtype type) : type_(type) {
    for (const auto& p : table.parameters)
      gradients_.push_back(at::empty(p.shape, at::TensorOptions().dtype(models::torch_dtype(type))));
  }
  models::gradient_target target(uint32_t parameter) override {
    return {gradients_[parameter].mutable_data_ptr(), type_, false};
  }

 private:
  core::dtype type_;
  std::vector<at::Tensor> gradients_;
};

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<long>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

}  // namespace

int main(int argc, char** argv) {
  at::set_num_threads(1);
  const auto type = core::float_dtype_from(argc > 1 ? argv[1] : "fp32");
  const uint64_t rows = argc > 2 ? std::stoull(argv[2]) : 4;
  const int repeats = argc > 3 ? std::stoi(argv[3]) : 5;
  const auto spec = models::parse_model_spec(argc > 4 ? argv[4] : default_model);
  if (!type || !spec) return std::fprintf(stderr, "%s\n", spec ? "unknown dtype" : spec.error().text.c_str()), 2;
  const uint64_t columns = spec->positions;
  auto model = models::make_language_model(*spec, *type, rows, columns);
  if (!model) return std::fprintf(stderr, "%s\n", model.error().text.c_str()), 2;

  const core::model_table& table = (*model)->table();
  models::parameter_binding binding(table, *type);
  std::vector<at::Tensor> weights;
  for (uint32_t p = 0; p < table.parameters.size(); ++p) {
    const auto& info = table.parameters[p];
    at::Tensor w = at::full(info.shape, info.init == core::initial_value::ones ? 1.0 : 0.0, at::kFloat);
    if (info.init == core::initial_value::normal) w.normal_(0, info.init_std);
    weights.push_back(w.to(models::torch_dtype(*type)));
    binding.bind(p, weights.back().mutable_data_ptr());
  }
  overwriting_sink sink(table, *type);
  std::vector<int64_t> tokens(rows * (columns + 1));
  for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<int64_t>(i * 7919 % spec->vocabulary);
  std::vector<uint64_t> samples(rows);
  for (size_t r = 0; r < rows; ++r) samples[r] = r;
  models::micro_batch batch{tokens, rows, columns, samples, 1, 1, true};
  const auto order = core::order_of_inputs(tokens, columns);
  batch.by_token = &order;

  std::map<std::string, std::vector<double>> times;
  for (int repeat = -1; repeat < repeats; ++repeat) {  // the first repetition is a warm-up and is not counted
    std::map<std::string, double> spent;
    const auto timed = [&](const std::string& name, auto&& work) {
      const std::clock_t start = std::clock();
      work();
      const double ms = static_cast<double>(std::clock() - start) * (1e3 / CLOCKS_PER_SEC);
      spent[name] += ms;
      spent["total"] += ms;
    };
    std::vector<std::pair<std::string, std::unique_ptr<models::segment_run>>> runs;
    at::Tensor hidden;
    for (uint32_t u = 0; u < table.units.size(); ++u)
      for (uint32_t s = 0; s < table.units[u].segments.size(); ++s) {
        const std::string& name = table.units[u].segments[s].name;
        timed(name + " forward", [&] { runs.emplace_back(name, (*model)->forward(u, s, batch, hidden, binding)); });
        hidden = runs.back().second->output();
      }
    at::Tensor gradient = at::full({}, 1.0, hidden.options());
    for (auto run = runs.rbegin(); run != runs.rend(); ++run)
      timed(run->first + " backward", [&] { gradient = run->second->backward(gradient, sink); });
    if (repeat >= 0)
      for (const auto& [name, ms] : spent) times[name].push_back(ms);
  }
  for (auto& [name, ms] : times)
    std::printf("%-20s median %8.2f ms  best %8.2f ms\n", name.c_str(), median(ms),
                *std::min_element(ms.begin(), ms.end()));
  return 0;
}
