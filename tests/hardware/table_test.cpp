// Tests tables of measurements: which form their columns have, how rows become workloads, and what is refused.
#include <boost/test/unit_test.hpp>
#include <cmath>

#include "hardware/catalogue.hpp"
#include "hardware/evaluation.hpp"
#include "hardware/table.hpp"
#include "tests/check_ok.hpp"

BOOST_AUTO_TEST_SUITE(table)

using namespace troupe;
using namespace troupe::hardware;
using namespace troupe::tests;

namespace {

const std::string iterations =
    "# GPUs,global batch,micro batch,hidden size,attention heads,# layers,sequence length,tensor parallelism,data "
    "parallelism,pipeline parallelism,iteration time (ms)\n";
const std::string sharded =
    "device,model,layers,hidden,heads,sequence,parameters,gpus,micro_batch,accumulation,global_batch,precision,"
    "sharding,"
    "recompute,offload_activations,tokens_per_s,iteration_s\n";
const std::string dated =
    "nodes,gpus,hidden,layers,heads,sequence,vocabulary,zero_stage,data,tensor,pipeline,micro_batch,global_batch,"
    "memory_gb,"
    "iteration_s,date,precision\n";
const std::string released =
    "release,model,layers,hidden,ffn,heads,kv_heads,vocabulary,sequence,gpus,tensor,pipeline,virtual_pipeline,context,"
    "data,"
    "fsdp,micro_batch,global_batch,precision,iteration_s\n";

core::result<read_table> read(const std::string& text, const std::vector<std::string>& hardware,
                              other_cards others = other_cards::refused) {
  TROUPE_ASSIGN(const auto file, read_csv(text, "t.csv"));
  TROUPE_ASSIGN(const auto* const form, form_of(file));
  TROUPE_ASSIGN(const auto stacks, choose_stacks(hardware, form->name));
  return read_samples(file, *form, stacks, others);
}

const workload& workload_in(const sample& s) { return std::get<workload>(s.what); }

}  // namespace

BOOST_AUTO_TEST_CASE(a_row_of_iterations_is_a_workload_of_its_columns) {
  const auto r = check_ok(read(iterations + "8,32,4,2048,16,24,1024,2,2,2,410.5\n", {"megatron_deepspeed_a100"}));
  BOOST_TEST_REQUIRE(r->samples.size() == 1U);
  const auto& w = workload_in(r->samples[0]);
  BOOST_TEST(r->samples[0].line == 2U);
  BOOST_TEST(std::abs(r->samples[0].measured - 0.4105) < 1e-12);
  BOOST_TEST((w.hidden == 2048 && w.ffn == 8192 && w.heads == 16 && w.layers == 24 && w.vocabulary == 51200));
  BOOST_TEST((w.tensor == 2 && w.data == 2 && w.pipeline == 2 && w.micro_batch == 4 && w.micro_batches == 4));
  BOOST_TEST((w.recompute && w.zero == 0 && !w.fused_attention));
  const auto node =
      check_ok(read(iterations + "8,32,4,2048,16,24,1024,2,2,2,410.5\n", {"megatron_deepspeed_node_a100"}));
  BOOST_TEST(!workload_in(node->samples[0]).recompute);
}

BOOST_AUTO_TEST_CASE(a_row_with_time_and_memory_makes_two_samples_and_one_that_ran_out_is_marked) {
  const auto r =
      check_ok(read(dated + "48,384,14336,72,64,2048,250880,1,4,8,12,1,2048,29,143.31,02-21,fp16\n"
                            "48,384,14336,70,112,2048,250880,1,8,4,12,2,2048,,104,02-28,\"bf16, summed in fp32\"\n"
                            "48,384,14336,72,64,2048,250880,0,4,8,12,16,2048,OOM,OOM,02-25,fp16\n",
                    {"bloom_a100"}));
  BOOST_TEST_REQUIRE(r->samples.size() == 4U);
  BOOST_TEST(r->rows == 3U);
  BOOST_TEST((r->samples[0].of == quantity::step && r->samples[1].of == quantity::memory));
  BOOST_TEST(r->samples[1].measured == 29e9);
  BOOST_TEST((workload_in(r->samples[0]).slow_pcie && !workload_in(r->samples[0]).embedding_is_layer));
  const auto& late = workload_in(r->samples[2]);
  BOOST_TEST((!late.slow_pcie && late.embedding_is_layer && late.grad_bytes == 4 && late.main_grad_bytes == 6));
  BOOST_TEST((r->samples[3].ran_out && r->samples[3].of == quantity::memory));
}

BOOST_AUTO_TEST_CASE(a_gate_is_seen_from_the_width_of_the_mlp) {
  const std::string rest = ",128256,8192,64,4,4,5,2,2,0,1,128,bf16,14.7\n";
  const auto r = check_ok(read(released + "1,x,80,8192,28672,64,8" + rest + "1,x,80,8192,32768,64,8" + rest, {"h100"}));
  BOOST_TEST(workload_in(r->samples[0]).gated);
  BOOST_TEST(!workload_in(r->samples[1]).gated);
  BOOST_TEST(workload_in(r->samples[0]).micro_batches == 64);
}

BOOST_AUTO_TEST_CASE(rows_of_several_cards_are_priced_by_the_stack_of_each) {
  const std::string rest = ",m,12,768,12,2048,1,8,4,1,32,amp_bf16,FULL_SHARD,1,0,1,0.5\n";
  const auto text = sharded + "h100_80gb" + rest + "a100_80gb" + rest;
  const auto r = check_ok(read(text, {"a100", "h100"}));
  BOOST_TEST((r->samples[0].stack_index == 1U && r->samples[1].stack_index == 0U));
  BOOST_TEST((workload_in(r->samples[0]).zero == 3 && workload_in(r->samples[0]).reduce_bytes == 4));
  check_failed(read(text, {"h100"}), "t.csv:3: device: wanted H100 SXM 80 GB or h100_80gb, a card of the stacks");
  const auto own = check_ok(read(text, {"h100"}, other_cards::left_out));
  BOOST_TEST((own->rows == 1U && own->left_out == 1U));
}

BOOST_AUTO_TEST_CASE(the_ranks_of_an_all_reduce_follow_from_its_bus_bandwidth) {
  const std::string columns = "size(B),count,type,time(ns),busbw(GB/s),time(ns),busbw(GB/s)\n";
  const auto r = check_ok(read(columns + "1048576,262144,float,92790,19.78,92150,19.91\n"
                                         "2097152,524288,float,93250,39.36,92970,39.47\n",
                               {"nccl_a100"}));
  BOOST_TEST(std::get<all_reduce_shape>(r->samples[1].what).ranks == 8);
  BOOST_TEST(std::abs(r->samples[0].measured - 92790e-9) < 1e-15);
  check_failed(read(columns + "1048576,262144,float,92790,1.978,92150,19.91\n", {"nccl_a100"}), "t.csv:2: busbw(GB/s)");
}

BOOST_AUTO_TEST_CASE(columns_that_are_unknown_or_missing_are_named_with_the_nearest) {
  auto text = iterations;
  text.replace(text.find("hidden size"), 11, "hidden sise");
  check_error(
      read(text + "1,1,1,1,1,1,1,1,1,1,1\n", {"a100"}),
      "t.csv:1: the columns are those of no known form of table, the nearest is iterations; column 'hidden size' is "
      "missing; unknown column 'hidden sise', the nearest is 'hidden size'");
  check_failed(read("device,device\n1,2\n", {"a100"}), "is missing");
}

BOOST_AUTO_TEST_CASE(a_row_that_cannot_be_read_is_refused_with_its_line) {
  const std::string good = "8,32,4,2048,16,24,1024,2,2,2,410.5\n";
  const auto refused = [&](const std::string& row, const std::string& words) {
    const auto r = read(iterations + good + row, {"megatron_deepspeed_a100"});
    check_failed(r, error_kind::bad_input, "t.csv:3: " + words);
  };
  refused("8,32,4,2048,16,24,1024,2,2,2,-1\n", "iteration time (ms): wanted a finite number above 0, got -1");
  refused("8,32,4,2048,16,24,1024,2,2,2,nan\n", "iteration time (ms): wanted a finite number above 0, got nan");
  refused("8,32,4,2048,16,24,1024,2,2,2,\n", "iteration time (ms): wanted a finite number above 0, got nothing");
  refused("8,32,4,2048.5,16,24,1024,2,2,2,1\n", "hidden size: wanted an integer of at least 1, got 2048.5");
  refused("8,33,4,2048,16,24,1024,2,2,2,1\n", "global batch: wanted a multiple of 8, got 33");
  refused("4,32,4,2048,16,24,1024,2,2,2,1\n", "# GPUs: wanted the product of the degrees, 8, got 4");
  refused("8,32,4,2050,16,24,1024,2,2,2,1\n", "hidden 2050 is no multiple of heads 16");
  refused("8,32,4,2048,1,24,1024,2,2,2,1\n", "heads 1 are no multiple of the tensor degree 2");
  refused("8,32,4\n", "wanted 11 cells, one for each column, got 3");
  refused("8,32,4,2048,16,24,1024,2,2,2,\"1\n", "a quote is not closed");
  check_failed(read(iterations, {"megatron_deepspeed_a100"}), "wanted column names and at least one row");
  check_failed(read(iterations + good, {"megatron_a100"}), "states no runs.recompute");
  check_failed(read(iterations + good, {"megatron_deepspeed_a100", "bloom_a100"}), "one stack is wanted, got 2");
  check_failed(
      read(iterations + "16,64,4,2048,16,24,1024,2,4,2,1\n64,512,8,3072,32,30,2048,1,64,1,3566.5\n",
           {"megatron_deepspeed_node_a100"}),
      "t.csv:3: megatron_deepspeed_node_a100: 1 tensor ranks by 64 data-parallel ranks exceed one node of 8 GPUs");
}

BOOST_AUTO_TEST_CASE(what_has_no_price_is_refused_by_name) {
  const auto row = [](const std::string& precision, const std::string& sharding, const std::string& offload) {
    return sharded + "h100_80gb,m,12,768,12,2048,1,8,4,1,32," + precision + "," + sharding + ",1," + offload +
           ",1,0.5\n";
  };
  check_failed(read(row("fp32", "FULL_SHARD", "0"), {"h100"}), "t.csv:2: precision: wanted amp_bf16 or bf16, got fp32");
  check_failed(read(row("bf16", "NO_SHARD", "0"), {"h100"}),
               "sharding: wanted FULL_SHARD or SHARD_GRAD_OP, got NO_SHARD");
  check_failed(read(row("bf16", "FULL_SHARD", "1"), {"h100"}), "offload_activations: wanted 0");
  check_failed(read(row("bf16", "FULL_SHARD", "0"), {"kernels_a100"}), "device: wanted A100 PCIe 80 GB");
}

BOOST_AUTO_TEST_CASE(cells_in_quotes_may_have_commas_and_blanks_at_the_ends_of_others_are_dropped) {
  const auto file =
      check_ok(read_csv("\xEF\xBB\xBF"
                        "a, b ,\"c, d\"\r\n\r\n1,\"x \"\"y\"\"\", 3\r\n",
                        "t.csv"));
  BOOST_TEST(file->columns == (std::vector<std::string>{"a", "b", "c, d"}), boost::test_tools::per_element());
  BOOST_TEST_REQUIRE(file->rows.size() == 1U);
  BOOST_TEST(file->rows[0].line == 3U);
  BOOST_TEST(file->rows[0].cells == (std::vector<std::string>{"1", "x \"y\"", "3"}), boost::test_tools::per_element());
  BOOST_TEST(csv_cell("x, \"y\"") == "\"x, \"\"y\"\"\"");
}

BOOST_AUTO_TEST_CASE(errors_intervals_and_the_order_of_pairs_are_counted) {
  const std::vector<double> measured{1, 2, 4, 4.1}, predicted{1.1, 2, 3, 5};
  const auto e = errors_of(predicted, measured);
  BOOST_TEST(e.rows == 4U);
  BOOST_TEST(std::abs(e.worst - 25) < 1e-9);
  BOOST_TEST(std::abs(e.mean - (10 + 0 + 25 + 100 * 0.9 / 4.1) / 4) < 1e-9);
  BOOST_TEST(e.ordered == 100);
  const auto wrong = errors_of(std::vector<double>{2, 1}, std::vector<double>{1, 2});
  BOOST_TEST(wrong.ordered == 0);
  BOOST_TEST(std::isnan(errors_of(std::vector<double>{1, 1}, std::vector<double>{1, 1.05}).ordered));
  BOOST_TEST(quantile({3, 1, 2}, 0.5) == 2);
  BOOST_TEST(std::abs(quantile({0, 1}, 0.8) - 0.8) < 1e-12);
  const card small = [] {
    card out;
    out.memory_bytes = 100;
    return out;
  }();
  BOOST_TEST((fit_in(small, {80, 1.1}) == fit_of_memory::fits));
  BOOST_TEST((fit_in(small, {95, 1.1}) == fit_of_memory::close));
  BOOST_TEST((fit_in(small, {101, 1.1}) == fit_of_memory::exceeds));
}

BOOST_AUTO_TEST_SUITE_END()
