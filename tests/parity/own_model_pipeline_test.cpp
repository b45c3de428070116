// Tests a host program's modules in a pipeline: no cut, schedule or ZeRO stage changes a bit, whatever values are sent
// between stages.
#include <fmt/format.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>

#include <map>

#include "tests/parity/own_model.hpp"
#include "tests/parity/run_result.hpp"
#include "tests/scratch_folder.hpp"

BOOST_AUTO_TEST_SUITE(own_model_pipeline)

using namespace troupe;
using namespace troupe::tests;

namespace {

constexpr uint64_t steps = 3;

settings job_of(int data, int micros, const std::string& order) {
  return {fmt::format("parallel.data={}", data), fmt::format("gradient_accumulation_steps={}", micros),
          "gradient_order=" + order, "tied_gradients=per_use"};
}
settings stage(int n) {
  return {fmt::format("zero_optimization.stage={}", n), "zero_optimization.reduce_bucket_size=4096",
          "zero_optimization.stage3_param_persistence_threshold=0", "zero_optimization.stage3_max_reuse_distance=0"};
}
settings cut(int ranks, const std::string& schedule, const std::string& first_units, int chunks = 1) {
  return {fmt::format("parallel.pipeline={}", ranks), "pipeline.schedule=" + schedule,
          fmt::format("pipeline.chunks={}", chunks), "pipeline.partition=" + first_units};
}
const settings checkpointing = {"activation_checkpointing.enabled=true"};

struct outcome {
  run_result trained;
  uint64_t evaluation = 0;  // the evaluation loss as the bits of a double
};

outcome train_own(const actors::host_model& model, const settings& set) {
  auto s = open_own(set, model);
  outcome out{result_of(*s, steps)};
  const auto loss = s->evaluate(2);
  if (!loss) throw std::runtime_error(loss.error().text);
  out.evaluation = std::bit_cast<uint64_t>(*loss);
  return out;
}

void check_cuts(const actors::host_model& model, const settings& common, const std::vector<settings>& cuts) {
  const outcome reference = train_own(model, common + stage(0));
  BOOST_TEST(reference.trained.losses.front() != reference.trained.losses.back());
  for (const auto& each : cuts) BOOST_TEST_CONTEXT(text_of(common + each)) {
      const outcome got = train_own(model, common + each);
      check_same(got.trained, reference.trained);
      BOOST_TEST(got.evaluation == reference.evaluation);
    }
}

actors::host_model own() {
  return {[] { return make_own_model(0.2); }, &own_batch, &own_batch};
}

/// Returns a model that sends awkward values between stages: values without gradient, views of the input, transposed,
/// repeated and frozen ones.
models::module_model make_awkward() {
  using models::unit;
  namespace nn = torch::nn;
  struct frozen : nn::Module {
    frozen() { table = register_parameter("table", at::randn({own_vocabulary, own_width}), /*requires_grad=*/false); }
    at::Tensor forward(const at::Tensor& x) { return at::embedding(table, x); }
    at::Tensor table;
  };
  return {
      {unit("next", [](const at::Tensor& x) { return (x + 1).remainder(own_vocabulary); }),
       unit("words", std::make_shared<frozen>()), unit("turned", [](const at::Tensor& x) { return x.transpose(1, 2); }),
       unit("norm", nn::BatchNorm1d(own_width)), unit("same", [](const at::Tensor& x) { return x; }),
       unit("back", [](const at::Tensor& x) { return x.transpose(1, 2); }),
       unit("wide", nn::Linear(own_width, 2 * own_width)),
       unit("half", [](const at::Tensor& x) { return x.narrow(2, 3, own_width); }),
       unit("mean",
            [](const at::Tensor& x) {
              return x.mean(1, /*keepdim=*/true).expand({-1, own_columns, -1});
            }),
       unit("flat", [](const at::Tensor& x) { return x.flatten(1); }), unit("dropout", nn::Dropout(0.2)),
       unit("head", nn::Linear(own_width * own_columns, own_vocabulary))},
      [](const at::Tensor& y, const at::Tensor& target) {
        return nn::functional::cross_entropy(y, target.select(1, 0));
      }};
}

/// Returns rows of a different length in each step, with a mask in addition to the tokens. All units receive the
/// batch's values.
models::host_batch masked_batch(uint64_t step, uint32_t micro, uint32_t rank) {
  auto out = own_batch(step, micro, rank);
  const int64_t columns = own_columns - static_cast<int64_t>((step + micro + rank) % 3);
  out.input = out.input.narrow(1, 0, columns);
  out.target = out.target.narrow(1, 0, columns);
  out.others = {{"mask", out.input.remainder(5).ne(0)}, {"scale", at::full({1, columns, 1}, 0.5)}};
  return out;
}
models::host_batch largest_batch() {
  auto out = own_batch(0, 0, 0);
  out.others = {{"mask", out.input.ne(0)}, {"scale", at::ones({1, own_columns, 1})}};
  return out;
}

/// Returns units that output several values: two with gradients, one of which not all units read, and three without.
models::module_model make_valued() {
  using models::named_values;
  using models::unit;
  namespace nn = torch::nn;
  struct two_ways : nn::Module {
    two_ways()
        : left(register_module("left", nn::Linear(own_width, own_width))),
          right(register_module("right", nn::Linear(own_width, own_width))) {}
    named_values forward(const named_values& x) {
      return x.with("hidden", left(x["hidden"]).tanh()).with("side", right(x["hidden"]));
    }
    nn::Linear left, right;
  };
  const auto words = models::shared("words", [] { return nn::Embedding(own_vocabulary, own_width); });
  return {{unit("words", words,
                [](nn::EmbeddingImpl& layer, const named_values& x) {
                  return named_values{{"hidden", layer.forward(x["input"])},
                                      {"mask", x["mask"]},
                                      {"scale", x["scale"]},
                                      {"tokens", x["input"]}};
                }),
           unit("two ways", [] { return std::make_shared<two_ways>(); }),
           unit("masked",
                [](const named_values& x) {
                  return x.with("hidden", x["hidden"] * x["mask"].unsqueeze(-1) * x["scale"] + x["side"]);
                }),
           unit(
               "memory", [] { return nn::GRU(nn::GRUOptions(own_width, own_width).batch_first(true)); },
               [](nn::GRUImpl& layer, const named_values& x) {
                 return x.with("hidden", std::get<0>(layer.forward(x["hidden"])));
               }),
           unit(
               "dropout", [] { return nn::Dropout(0.2); },
               [](nn::DropoutImpl& layer, const named_values& x) { return x.with("side", layer.forward(x["side"])); }),
           unit("joined",
                [](const named_values& x) {
                  return named_values{{"hidden", x["hidden"] + 0.1 * x["side"] +
                                                     x["tokens"].unsqueeze(-1).to(x["hidden"].scalar_type()) * 0.01},
                                      {"mask", x["mask"]}};
                }),
           unit("head", words,
                [](nn::EmbeddingImpl& layer, const named_values& x) {
                  return x.with("hidden", x["hidden"].matmul(layer.weight.t()) * 0.2);
                })},
          [](const named_values& y, const at::Tensor& target) {
            const at::Tensor each =
                nn::functional::cross_entropy(y["hidden"].flatten(0, 1), target.flatten(),
                                              nn::functional::CrossEntropyFuncOptions().reduction(torch::kNone));
            return each.mul(y["mask"].flatten()).mean();
          }};
}

}  // namespace

BOOST_AUTO_TEST_CASE(stages_of_modules_leave_the_bits_at_every_zero_stage) {
  for (const std::string order : {"per_step", "per_micro_batch"})
    check_cuts(own(), job_of(2, 3, order),
               {cut(2, "gpipe", "[0,4]") + stage(0), cut(2, "1f1b", "[0,3]") + stage(1),
                cut(2, "1f1b", "[0,7]") + stage(2), cut(3, "1f1b", "[0,2,5]") + stage(3) + checkpointing, stage(3)});
}

BOOST_AUTO_TEST_CASE(every_schedule_of_one_direction_leaves_the_bits) {
  check_cuts(own(), job_of(1, 4, "per_micro_batch"),
             {cut(4, "1f1b", "uniform"), cut(2, "looped_bfs", "[0,1,4,6]", 2) + stage(2),
              cut(2, "interleaved", "best", 2) + stage(3), cut(2, "zb_h1", "parameters") + stage(1),
              cut(2, "zb_h2", "best") + checkpointing, cut(3, "zb1p", "[0,3,6]") + stage(3),
              cut(2, "zb_v", "[0,2,4,6]", 2) + stage(3)});
}

BOOST_AUTO_TEST_CASE(stages_of_modules_leave_the_bits_in_bf16_and_in_fp16_with_a_loss_scale) {
  const std::vector<settings> cuts = {cut(2, "1f1b", "[0,4]") + stage(3),
                                      cut(3, "zb_h1", "[0,3,5]") + stage(1) + checkpointing};
  check_cuts(own(), settings{"bf16.enabled=true"} + job_of(2, 2, "per_step"), cuts);
  check_cuts(own(), settings{"fp16.enabled=true", "fp16.initial_scale_power=8"} + job_of(1, 3, "per_step"), cuts);
}

BOOST_AUTO_TEST_CASE(anything_that_a_unit_gives_crosses_without_changing_a_bit) {
  std::vector<settings> cuts;
  for (int first = 1; first < 12; ++first)
    for (const char* schedule : {"1f1b", "zb_h1"})
      cuts.push_back(cut(2, schedule, fmt::format("[0,{}]", first)) + stage(first % 4));
  cuts.push_back(cut(3, "1f1b", "[0,4,9]") + checkpointing);
  cuts.push_back(cut(3, "1f1b", "[0,4,9]") + checkpointing + settings{"cluster.offload_activations=cpu"});
  cuts.push_back(cut(2, "zb_v", "[0,2,5,9]", 2) + stage(3));
  cuts.push_back(cut(2, "interleaved", "[0,3,6,8]", 2) + stage(2));
  check_cuts({&make_awkward, &own_batch, &own_batch}, job_of(1, 4, "per_step"), cuts);
}

BOOST_AUTO_TEST_CASE(units_with_factories_leave_the_bits_at_every_cut) {
  const actors::host_model model{[] { return make_own_model_by_factories(0.2); }, &own_batch, &own_batch};
  check_cuts(model, job_of(2, 2, "per_step"),
             {stage(3), cut(2, "1f1b", "[0,4]") + stage(0), cut(3, "zb_h1", "[0,3,6]") + stage(3),
              cut(2, "1f1b", "[0,7]") + stage(2) + settings{"bf16.enabled=false"}});
  check_cuts(model, settings{"bf16.enabled=true"} + job_of(2, 2, "per_micro_batch"),
             {cut(2, "zb_v", "[0,2,4,6]", 2) + stage(3) + checkpointing});
}

BOOST_AUTO_TEST_CASE(a_unit_is_built_on_the_ranks_of_its_stage_only) {
  std::map<std::string, int> made;
  const actors::host_model model{
      [&] { return make_own_model_by_factories(0.2, [&](const std::string& unit) { ++made[unit]; }); }, &own_batch,
      &own_batch};
  auto s = open_own(job_of(2, 2, "per_step") + stage(3) + cut(2, "1f1b", "[0,4]"), model);
  step_of(*s);
  // Each module is built once for the dry run and once on each of the two data ranks of its stage; the shared ones are
  // used in both stages.
  const std::map<std::string, int> wanted = {{"words", 5},  {"mix", 3},   {"shared", 5},
                                             {"memory", 3}, {"scale", 3}, {"dropout", 3}};
  BOOST_TEST((made == wanted));
  auto copy = make_own_model_by_factories(0.2);
  BOOST_TEST(actors::copy_weights(*s, copy).error().text.find("is not built: call models::build first") !=
             std::string::npos);
  models::build(copy);
  BOOST_REQUIRE(actors::copy_weights(*s, copy));
  BOOST_TEST(copy.units[2].module == copy.units[6].module);
}

BOOST_AUTO_TEST_CASE(named_values_of_changing_lengths_cross_between_stages) {
  std::vector<settings> cuts;
  for (int first = 1; first < 7; ++first)
    for (const char* schedule : {"1f1b", "zb_h1"})
      cuts.push_back(cut(2, schedule, fmt::format("[0,{}]", first)) + stage(first % 4));
  cuts.push_back(cut(3, "1f1b", "[0,2,4]") + checkpointing + stage(3));
  cuts.push_back(cut(3, "1f1b", "[0,1,5]") + checkpointing + settings{"cluster.offload_activations=cpu"});
  cuts.push_back(cut(2, "zb_v", "[0,2,3,5]", 2) + stage(3));
  cuts.push_back(checkpointing + settings{"cluster.offload_activations=cpu"});
  const actors::host_model model{&make_valued, &masked_batch, &masked_batch, &largest_batch};
  check_cuts(model, job_of(1, 4, "per_step"), cuts);
  check_cuts(model, settings{"bf16.enabled=true"} + job_of(2, 3, "per_micro_batch"), {cuts[4], cuts[7], cuts[12]});
}

BOOST_AUTO_TEST_CASE(values_that_do_not_fit_or_have_other_names_end_the_step_with_their_unit) {
  const auto failure = [](const actors::host_model& model) {
    auto s = open_own(job_of(1, 2, "per_step") + cut(2, "1f1b", "[0,3]"), model);
    step_of(*s);
    const auto failed = s->step();
    return failed ? "accepted" : failed.error().text;
  };
  const auto has = [](const std::string& text, const std::string& part) {
    BOOST_TEST(text.find(part) != std::string::npos, text);
  };
  const auto batches = [](auto change) {
    return [change](uint64_t step, uint32_t micro, uint32_t rank) {
      auto out = masked_batch(step, micro, rank);
      if (step == 1) change(out);
      return out;
    };
  };
  has(failure({&make_valued, batches([](auto& b) {
                 b.input = b.input.repeat({1, 9});
                 b.others = {{"mask", b.input.ne(0)}, {"scale", at::ones({1})}};
               })}),
      "the output of masked: wanted at most");
  has(failure({&make_valued, batches([](auto& b) {
                 b.others = {{"mask", b.input.ne(0)}};
               })}),
      "the batch: wanted the values 'input', 'mask', 'scale', as in the first micro-batch, got 'input', 'mask'");
  has(failure({&make_valued, batches([](auto& b) {
                 b.others = {{"input", b.input}};
               })}),
      "training batch of step 1, micro-batch 0, rank 0: wanted further values on the CPU, not named 'input', got "
      "'input'");
}

BOOST_AUTO_TEST_CASE(a_run_of_modules_saved_in_one_cut_resumes_in_any_other) {
  const scratch_folder folder;
  std::map<std::string, int> made;
  const actors::host_model model{
      [&] { return make_own_model_by_factories(0.2, [&](const std::string& unit) { ++made[unit]; }); }, &own_batch,
      &own_batch};
  const settings common = job_of(2, 2, "per_step");
  const std::vector<settings> cuts = {stage(1), cut(2, "1f1b", "[0,4]") + stage(3),
                                      cut(2, "zb_v", "[0,2,4,6]", 2) + stage(2)};
  for (size_t i = 0; i < cuts.size(); ++i) {
    auto s = open_own(common + cuts[i], model);
    step_of(*s);
    step_of(*s);
    const auto saved = s->save({.root = folder / fmt::to_string(i)});
    BOOST_TEST_REQUIRE(saved.has_value());
    const auto wanted = result_of(*s, 2);
    for (const auto& other : cuts) BOOST_TEST_CONTEXT(text_of(cuts[i]) << " to " << text_of(other)) {
        made.clear();
        auto t = actors::session::open(
            {.config = own_config(common + other), .resume = *saved, .model = actors::own_model(model)});
        BOOST_TEST_REQUIRE(t.has_value(), (t ? std::string() : t.error().text));
        // Once for the dry run and once per data rank, although no initial values are needed.
        BOOST_TEST(made["mix"] == 3);
        check_same(result_of(**t, 2), wanted);
      }
  }
}

BOOST_AUTO_TEST_CASE(running_statistics_count_a_micro_batch_once_however_many_are_in_flight) {
  const auto statistics = [](const settings& set) {
    auto made = std::make_shared<std::vector<at::Tensor>>();
    const actors::host_model model{[made] {
                                     auto m = make_awkward();
                                     for (const auto& b : m.units[3].module->buffers()) made->push_back(b);
                                     return m;
                                   },
                                   &own_batch, &own_batch};
    auto s = open_own(job_of(1, 4, "per_step") + set, model);
    step_of(*s);
    step_of(*s);
    const auto last = made->end() - 3;  // the last three are mean, variance and count of the last rank
    return std::pair{last[0].clone(), last[2].item<int64_t>()};
  };
  const auto [mean, count] = statistics({});
  BOOST_TEST(count == 8);
  for (const settings& more : {settings{}, checkpointing}) {
    const auto got = statistics(cut(2, "1f1b", "[0,2]") + more);
    BOOST_TEST(got.second == count);
    BOOST_TEST(got.first.equal(mean));
  }
}

BOOST_AUTO_TEST_CASE(a_schedule_in_any_order_has_the_same_bits_at_every_zero_stage) {
  const scratch_folder folder;
  const auto file = folder.write("own.csv",
                                 "0F1,0F0,0F2,0F3,0I2,0I1,0W1,0I3,0W2,0I0,0W0,0W3\n"
                                 "1F1,1F2,1B2,1F0,1B1,1F3,1B3,1B0\n");
  const auto any = cut(2, file.string(), "[0, 2]") + settings{"pipeline.any_order=true"};
  for (const std::string order : {"per_step", "per_micro_batch"}) BOOST_TEST_CONTEXT(order) {
      const auto uncut = train_own(own(), job_of(2, 4, order) + stage(0));
      const auto wanted = train_own(own(), job_of(2, 4, order) + any + stage(0));
      for (size_t i = 0; i < steps; ++i)
        BOOST_TEST(std::bit_cast<double>(wanted.trained.losses[i]) == std::bit_cast<double>(uncut.trained.losses[i]),
                   boost::test_tools::tolerance(1e-6));
      for (const int n : {1, 2, 3}) {
        BOOST_TEST_INFO_SCOPE("n " << n);
        const auto got = train_own(own(), job_of(2, 4, order) + any + stage(n));
        check_same(got.trained, wanted.trained);
        BOOST_TEST(got.evaluation == wanted.evaluation);
      }
    }
}

BOOST_AUTO_TEST_SUITE_END()
