#include "plan/choose/estimate.hpp"

#include "tests/plan/samples.hpp"

BOOST_AUTO_TEST_SUITE(estimate)

using namespace troupe::plan;

namespace {

constexpr machine_shape eight{.gpus_per_node = 8, .nodes = 1};

using enum state_home;

// Memory tier of the optimizer states, memory tier of the parameters, and zero_init, in the order in which DeepSpeed
// prints the combinations.
constexpr estimated_placement placements[] = {{host, host, true},    {host, host, false},    {host, device, true},
                                              {host, device, false}, {device, device, true}, {device, device, false}};

}  // namespace

// The expected bytes were printed by DeepSpeed's own estimate functions.
BOOST_AUTO_TEST_CASE(stage_2_needs_the_bytes_that_deepspeed_says) {
  const struct {
    uint64_t parameters;
    machine_shape shape;
    uint64_t host, device, host_without, device_without;
  } rows[] = {{2'851'000'000, {8, 1}, 136'848'000'000, 5'702'000'000, 136'848'000'000, 12'116'750'000},
              {124'439'808, {2, 1}, 2'986'555'392, 248'879'616, 1'493'277'696, 1'368'837'888},
              {1'000'003, {3, 2}, 36'000'108, 2'000'006, 18'000'054, 5'000'015},
              {11, {7, 3}, 1386, 22, 462, 31}};
  for (const auto& x : rows) BOOST_TEST_CONTEXT(x.parameters << " parameters") {
      const auto with = estimate_stage2(x.parameters, x.shape, state_home::host);
      const auto without = estimate_stage2(x.parameters, x.shape, state_home::device);
      BOOST_TEST(with.host == x.host);
      BOOST_TEST(with.device == x.device);
      BOOST_TEST(without.host == x.host_without);
      BOOST_TEST(without.device == x.device_without);
    }
}

BOOST_AUTO_TEST_CASE(stage_3_needs_the_bytes_that_deepspeed_says) {
  const struct {
    model_size size;
    machine_shape shape;
    uint64_t host[6], device[6];
  } rows[] = {{{2'851'000'000, 32'000'000},
               {8, 1},
               {76'977'000'000, 136'848'000'000, 68'424'000'000, 136'848'000'000, 1'536'000'000, 136'848'000'000},
               {128'000'000, 128'000'000, 840'750'000, 840'750'000, 6'542'750'000, 6'542'750'000}},
              {{124'439'808, 38'597'376},
               {2, 1},
               {3'359'874'816, 3'359'874'816, 2'986'555'392, 2'986'555'392, 463'168'512, 1'493'277'696},
               {154'389'504, 154'389'504, 278'829'312, 278'829'312, 1'274'347'776, 1'274'347'776}},
              {{1'000'003, 1'000'003},
               {3, 2},
               {13'500'040, 18'000'054, 12'000'036, 18'000'054, 18'000'054, 18'000'054},
               {4'000'012, 4'000'012, 4'333'346, 4'333'346, 7'000'021, 7'000'021}},
              {{11, 11}, {7, 3}, {99, 462, 88, 462, 462, 462}, {44, 44, 45, 45, 53, 53}}};
  for (const auto& x : rows)
    for (size_t i = 0; i < 6; ++i) BOOST_TEST_CONTEXT(x.size.total << " parameters, placement " << i) {
        const auto needs = estimate_stage3(x.size, x.shape, placements[i]);
        BOOST_TEST(needs.host == x.host[i]);
        BOOST_TEST(needs.device == x.device[i]);
        BOOST_TEST(needs.largest_layer == 4 * x.size.largest_layer);
      }
}

BOOST_AUTO_TEST_CASE(parameters_on_the_host_mean_nothing_without_the_optimizer_there) {
  const model_size size{1'000'003, 10'000};
  const auto a = estimate_stage3(size, eight, {state_home::device, state_home::host, true}),
             b = estimate_stage3(size, eight, {state_home::device, state_home::device, true});
  BOOST_TEST(a.host == b.host);
  BOOST_TEST(a.device == b.device);
}

BOOST_AUTO_TEST_CASE(tables_are_printed_as_deepspeed_prints_them) {
  BOOST_TEST(all_cold_stage2(2'851'000'000, eight) ==
             "Estimated memory needed for params, optim states and gradients for a:\n"
             "HW: Setup with 1 node, 8 GPUs per node.\n"
             "SW: Model with 2851M total params.\n"
             "  per CPU  |  per GPU |   Options\n"
             "  127.45GB |   5.31GB | offload_optimizer=cpu \n"
             "  127.45GB |  11.28GB | offload_optimizer=none\n");
  BOOST_TEST(all_cold_stage3({2'851'000'000, 32'000'000}, eight) ==
             "Estimated memory needed for params, optim states and gradients for a:\n"
             "HW: Setup with 1 node, 8 GPUs per node.\n"
             "SW: Model with 2851M total params, 32M largest layer params.\n"
             "  per CPU  |  per GPU |   Options\n"
             "   71.69GB |   0.12GB | offload_param=cpu , offload_optimizer=cpu , zero_init=1\n"
             "  127.45GB |   0.12GB | offload_param=cpu , offload_optimizer=cpu , zero_init=0\n"
             "   63.72GB |   0.78GB | offload_param=none, offload_optimizer=cpu , zero_init=1\n"
             "  127.45GB |   0.78GB | offload_param=none, offload_optimizer=cpu , zero_init=0\n"
             "    1.43GB |   6.09GB | offload_param=none, offload_optimizer=none, zero_init=1\n"
             "  127.45GB |   6.09GB | offload_param=none, offload_optimizer=none, zero_init=0\n");
  BOOST_TEST(all_cold_stage3({124'439'808, 38'597'376}, {1, 2, 1.25}) ==
             "Estimated memory needed for params, optim states and gradients for a:\n"
             "HW: Setup with 2 nodes, 1 GPU per node.\n"
             "SW: Model with 124M total params, 38M largest layer params.\n"
             "  per CPU  |  per GPU |   Options\n"
             "    1.30GB |   0.14GB | offload_param=cpu , offload_optimizer=cpu , zero_init=1\n"
             "    1.30GB |   0.14GB | offload_param=cpu , offload_optimizer=cpu , zero_init=0\n"
             "    1.16GB |   0.26GB | offload_param=none, offload_optimizer=cpu , zero_init=1\n"
             "    1.16GB |   0.26GB | offload_param=none, offload_optimizer=cpu , zero_init=0\n"
             "    0.18GB |   1.19GB | offload_param=none, offload_optimizer=none, zero_init=1\n"
             "    0.58GB |   1.19GB | offload_param=none, offload_optimizer=none, zero_init=0\n");
}

BOOST_AUTO_TEST_CASE(a_model_counts_a_shared_parameter_once_and_its_largest_module_by_itself) {
  troupe::core::model_table t;
  t.parameters = {{"wte.weight", {50, 4}},
                  {"h.0.mlp.c_fc.weight", {4, 60}},
                  {"h.0.mlp.c_fc.bias", {60}},
                  {"h.0.mlp.gate", {299}},
                  {"scale", {7}}};
  t.parameters[1].trainable = false;
  t.units = {{"embedding", {0}, {}}, {"block", {1, 2, 3}, {}}, {"head", {0}, {}}};
  const auto size = size_of(t);
  BOOST_TEST(size.total == 200U + 240 + 60 + 299 + 7);
  BOOST_TEST(size.largest_layer == 300U);
  BOOST_TEST(size_of({}).largest_layer == 0U);
}

BOOST_AUTO_TEST_CASE(each_stage_shares_more_of_the_sixteen_bytes) {
  BOOST_TEST(static_state_bytes(1000, 4, 0) == 16'000U);
  BOOST_TEST(static_state_bytes(1000, 4, 1) == 4000U + 3000);
  BOOST_TEST(static_state_bytes(1000, 4, 2) == 2000U + 3500);
  BOOST_TEST(static_state_bytes(1000, 4, 3) == 4000U);
  for (uint32_t stage = 0; stage < 4; ++stage) BOOST_TEST(static_state_bytes(1000, 1, stage) == 16'000U);
}

BOOST_AUTO_TEST_CASE(buffers_double_with_overlap) {
  BOOST_TEST(static_bucket_bytes(500, 2, 1, reduction::overlapped) == 2000U);
  BOOST_TEST(static_bucket_bytes(500, 2, 2, reduction::awaited) == 1000U);
  BOOST_TEST(static_bucket_bytes(500, 2, 3, reduction::overlapped) == 1000U);
}

BOOST_AUTO_TEST_SUITE_END()
