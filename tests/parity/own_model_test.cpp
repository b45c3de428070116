// Tests the training of a host program's own modules: ZeRO changes no bit of it, and it equals LibTorch's.
#include "tests/parity/own_model.hpp"

#include <fmt/format.h>
#include <torch/optim/adamw.h>

#include "tests/parity/run_result.hpp"

BOOST_AUTO_TEST_SUITE(own_model)

using namespace troupe;
using namespace troupe::tests;

namespace {

actors::host_model own(double dropout) {
  return {[dropout] { return make_own_model(dropout); }, &own_batch, &own_batch};
}

settings stage(int n) { return {fmt::format("zero_optimization.stage={}", n)}; }
settings degrees(int ranks, int micros, const std::string& order) {
  return {fmt::format("parallel.data={}", ranks), fmt::format("gradient_accumulation_steps={}", micros),
          "gradient_order=" + order};
}
const settings pieces = {"zero_optimization.reduce_bucket_size=4096",
                         "zero_optimization.sub_group_size=2048",
                         "zero_optimization.stage3_param_persistence_threshold=0",
                         "zero_optimization.stage3_max_reuse_distance=0",
                         "zero_optimization.stage3_prefetch_bucket_size=0",
                         "zero_optimization.allgather_bucket_size=4096"};
const settings checkpointing = {"activation_checkpointing.enabled=true"};

run_result train_own(const settings& set, double dropout, uint64_t steps) {
  auto s = open_own(set, own(dropout));
  return result_of(*s, steps);
}

void check_stages(const settings& common, double dropout) {
  const auto reference = train_own(common + stage(0), dropout, 5);
  BOOST_TEST(reference.losses.front() != reference.losses.back());
  for (int n = 0; n <= 3; ++n)
    for (const settings& more : {pieces, pieces + checkpointing})
      BOOST_TEST_CONTEXT(text_of(common + stage(n) + more)) {
        const auto got = train_own(common + stage(n) + more, dropout, 5);
        check_same(got, reference);
        BOOST_TEST((got.gathers > 0) == (n == 3));
        if (n == 3) BOOST_TEST(got.peak_live < got.model);
      }
}

std::vector<at::Tensor> trained(const models::module_model& m) {
  std::vector<at::Tensor> out;
  for (const auto& u : m.units)
    if (u.module != nullptr)
      for (const auto& p : u.module->parameters())
        if (p.requires_grad() && std::none_of(out.begin(), out.end(), [&](const auto& t) { return t.is_same(p); }))
          out.push_back(p);
  return out;
}

/// Trains in a plain LibTorch loop over the whole global batch, with LibTorch's optimizer. Returns the losses.
std::vector<double> torch_losses(const models::module_model& m, int ranks, int micros, uint64_t steps) {
  torch::optim::AdamW adam(trained(m), torch::optim::AdamWOptions(1e-2).eps(1e-5).weight_decay(0.1));
  std::vector<double> out;
  for (uint64_t step = 0; step < steps; ++step) {
    std::vector<at::Tensor> inputs, targets;
    for (int micro = 0; micro < micros; ++micro)
      for (int rank = 0; rank < ranks; ++rank) {
        const auto b = own_batch(step, static_cast<uint32_t>(micro), static_cast<uint32_t>(rank));
        inputs.push_back(b.input);
        targets.push_back(b.target);
      }
    at::Tensor x = at::cat(inputs);
    for (const auto& u : m.units) x = u.forward(x);
    const at::Tensor loss = m.loss(x, at::cat(targets));
    adam.zero_grad();
    loss.backward();
    double squares = 0;
    for (const auto& p : trained(m)) squares += p.grad().to(at::kDouble).square().sum().item<double>();
    const double factor = 1 / std::max(1.0, std::sqrt(squares) + 1e-6);
    for (const auto& p : trained(m)) p.mutable_grad().mul_(factor);
    adam.step();
    out.push_back(loss.item<double>());
  }
  return out;
}

void check_against_torch(const settings& set, double loss_tolerance, double weight_tolerance) {
  const uint64_t steps = 8;
  auto ours = open_own(set + degrees(2, 3, "auto") + stage(3) + pieces, own(0));
  const auto start = make_own_model(0), end = make_own_model(0);
  BOOST_REQUIRE(actors::copy_weights(*ours, start));
  const auto wanted = torch_losses(start, 2, 3, steps);
  for (double loss : wanted) BOOST_TEST_CONTEXT("loss " << loss)
  BOOST_TEST(step_of(*ours).loss == loss, boost::test_tools::tolerance(loss_tolerance));
  BOOST_TEST(wanted.back() < wanted.front());
  BOOST_REQUIRE(actors::copy_weights(*ours, end));
  const auto theirs = trained(start), mine = trained(end);
  for (size_t i = 0; i < mine.size(); ++i) {
    const at::Tensor reference = theirs[i].detach().to(at::kDouble);
    const double difference =
        mine[i].detach().to(at::kDouble).sub(reference).norm().item<double>() / reference.norm().item<double>();
    BOOST_TEST(difference <= weight_tolerance, "parameter " << i << ": " << difference);
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(every_stage_leaves_the_bits_in_fp32_with_dropout) { check_stages(degrees(2, 2, "per_step"), 0.2); }

BOOST_AUTO_TEST_CASE(weights_of_fewer_bits_change_no_bit_over_stages) {
  const std::string weights = "compression_training.weight_quantization.";
  const settings quantised = {
      weights + "shared_parameters.enabled=true", weights + "shared_parameters.quantize_weight_in_forward=true",
      weights + "shared_parameters.schedule_offset=1", weights + "different_groups.all.params.start_bits=8",
      weights + "different_groups.all.params.target_bits=3"};
  const settings common = degrees(2, 2, "per_step");
  check_stages(common + quantised, 0.1);
  const auto plain = train_own(common, 0.1, 3), fewer = train_own(common + quantised, 0.1, 3);
  BOOST_TEST(fewer.losses[0] == plain.losses[0]);
  BOOST_TEST(fewer.losses[1] != plain.losses[1]);
  const settings filters = {weights + "different_groups.all.modules=[\"mix\"]",
                            weights + "shared_parameters.quantize_groups=4"};
  const auto of_filters = train_own(common + quantised + filters, 0.1, 3);
  BOOST_TEST(of_filters.losses[1] != plain.losses[1]);
  BOOST_TEST(of_filters.losses[1] != fewer.losses[1]);
}

BOOST_AUTO_TEST_CASE(inputs_of_a_hosts_modules_are_not_quantised) {
  const std::string inputs = "compression_training.activation_quantization.";
  const auto s =
      try_open_own({inputs + "shared_parameters.enabled=true", inputs + "different_groups.all.params.bits=8"}, own(0));
  BOOST_TEST_REQUIRE(!s.has_value());
  BOOST_TEST(s.error().text.find("cannot be combined with a host program's own modules, whose matrix products") !=
             std::string::npos);
}

BOOST_AUTO_TEST_CASE(other_numbers_of_micro_batches_are_refused_whatever_made_the_configuration) {
  auto job = *own_config({});
  job.managed_gradient_accumulation = false;
  const auto s = actors::session::open(
      {.config = std::make_shared<const config::job_config>(std::move(job)), .model = actors::own_model(own(0))});
  BOOST_TEST_REQUIRE(!s.has_value());
  BOOST_TEST(s.error().text.starts_with("managed_gradient_accumulation: cannot be combined with a host program's own"),
             s.error().text);
}

BOOST_AUTO_TEST_CASE(pruned_filters_and_learned_masks_change_no_bit_over_stages) {
  const auto pruned = [](const std::string& technique, const std::string& method, const std::string& module) {
    const std::string section = "compression_training." + technique + ".";
    return settings{section + "shared_parameters.enabled=true", section + "shared_parameters.method=" + method,
                    section + "shared_parameters.schedule_offset=1",
                    section + "different_groups.all.params.dense_ratio=0.5",
                    section + "different_groups.all.modules=[\"" + module + "\"]"};
  };
  const settings common = degrees(2, 2, "per_step");
  for (const settings& set : {pruned("channel_pruning", "l1", "mix") + pruned("sparse_pruning", "topk", "shared"),
                              pruned("channel_pruning", "topk", "mix") + pruned("row_pruning", "topk", "shared")}) {
    check_stages(common + set, 0.1);
    const auto plain = train_own(common, 0.1, 3), less = train_own(common + set, 0.1, 3);
    BOOST_TEST(less.losses[0] == plain.losses[0]);
    BOOST_TEST(less.losses[1] != plain.losses[1]);
  }
}

BOOST_AUTO_TEST_CASE(every_stage_leaves_the_bits_in_bf16_with_dropout_summing_ranks_first) {
  check_stages(settings{"bf16.enabled=true"} + degrees(3, 2, "per_micro_batch"), 0.2);
}

BOOST_AUTO_TEST_CASE(every_stage_leaves_the_bits_in_fp16_with_a_loss_scale) {
  check_stages(settings{"fp16.enabled=true", "fp16.initial_scale_power=8"} + degrees(2, 1, "auto"), 0.1);
}

BOOST_AUTO_TEST_CASE(fp32_weights_after_eight_steps_are_libtorchs_to_1e_5) { check_against_torch({}, 1e-6, 1e-5); }

BOOST_AUTO_TEST_CASE(bf16_weights_after_eight_steps_are_libtorchs_to_3e_2) {
  check_against_torch({"bf16.enabled=true", "data_types.grad_accum_dtype=fp32"}, 2e-2, 3e-2);
}

BOOST_AUTO_TEST_SUITE_END()
