// Tests `troupe simulate --table` and `troupe calibrate` on small tables.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/apps/topology.hpp"
#include "tests/places.hpp"

BOOST_AUTO_TEST_SUITE(simulate_table)

using namespace troupe::tests;

namespace {

namespace fs = std::filesystem;

const std::string columns =
    "# GPUs,global batch,micro batch,hidden size,attention heads,# layers,sequence length,tensor parallelism,data "
    "parallelism,pipeline parallelism,iteration time (ms)\n";

/// A folder with the table of the examples, and a table of two rows.
struct table_folder : command_folder {
  table_folder() {
    fs::copy(fs::path(troupe::places::source_dir) / "examples/steps_h100.csv", folder / "steps.csv");
    folder.write("two.csv",
                 columns + "64,512,8,3072,32,30,2048,1,64,1,3566.5\n64,512,4,3072,32,30,2048,1,64,1,3638.3\n");
  }
};

}  // namespace

BOOST_AUTO_TEST_CASE(a_table_is_predicted_and_its_errors_and_worst_rows_are_shown) {
  const table_folder f;
  const auto r = check_exit(0, f.troupe({"simulate", "--table", "steps.csv", "--hardware", "megatron_h100"}));
  BOOST_TEST(r.out.starts_with("steps.csv: 28 rows of the form released_runs, priced by megatron_h100"), r.out);
  for (const char* words : {"pairs in order", "0.7 %", "2.2 %", "compute ", "product_share -0.75"})
    BOOST_TEST(has(r.out, words), words << " in\n" << r.out);
  BOOST_TEST(std::ranges::count(r.out, '\n') == 3 + 2 + 10 + 1, r.out);
  const auto card = check_exit(0, f.troupe({"simulate", "--table", "steps.csv", "--hardware", "h100"}));
  BOOST_TEST(card.out == r.out);
}

BOOST_AUTO_TEST_CASE(published_steps_that_no_constant_was_fitted_to_are_predicted) {
  const command_folder f;
  const auto table = fs::path(troupe::places::source_dir) / "examples/steps_a100.csv";
  const auto r =
      check_exit(0, f.troupe({"simulate", "--table", table.string(), "--hardware", "megatron_a100", "--json"}));
  const auto out = nlohmann::json::parse(r.out);
  BOOST_TEST_REQUIRE(out.at("samples").size() == 15U);
  double sum = 0, worst = 0;
  for (const auto& sample : out.at("samples")) {
    const double error = std::abs(sample.at("predicted").get<double>() / sample.at("measured").get<double>() - 1);
    sum += error;
    worst = std::max(worst, error);
  }
  BOOST_TEST(sum / 15 < 0.06);
  BOOST_TEST(worst < 0.12);
}

BOOST_AUTO_TEST_CASE(what_a_row_recomputes_is_refused_unless_it_is_known) {
  command_folder f;
  f.folder.write("runs.csv",
                 "heads,hidden,layers,sequence,vocabulary,tensor,pipeline,data,gpus,global_batch,recompute,"
                 "sequence_parallel,iteration_s\n128,20480,105,2048,51200,8,35,1,280,280,some,1,37.83\n");
  const auto r = check_exit(2, f.troupe({"simulate", "--table", "runs.csv", "--hardware", "megatron_a100"}));
  BOOST_TEST(has(r.err, "recompute: wanted none, selective or full, got some"), r.err);
}

BOOST_AUTO_TEST_CASE(json_has_every_row_with_its_parts_interval_and_constants) {
  const table_folder f;
  const auto r =
      check_exit(0, f.troupe({"simulate", "--table", "two.csv", "--hardware", "megatron_deepspeed_a100", "--json"}));
  const auto out = nlohmann::json::parse(r.out);
  BOOST_TEST(out.at("format") == "troupe simulate");
  BOOST_TEST(out.at("form") == "iterations");
  BOOST_TEST_REQUIRE(out.at("samples").size() == 2U);
  for (const auto& sample : out.at("samples")) {
    double sum = 0;
    for (const auto& [name, value] : sample.at("parts").items()) sum += value.get<double>();
    const double predicted = sample.at("predicted");
    BOOST_TEST(std::abs(sum / predicted - 1) < 1e-12);
    BOOST_TEST((sample.at("low") < predicted && sample.at("high") > predicted));
    BOOST_TEST(sample.at("matter_most").size() == 3U);
  }
  BOOST_TEST(std::abs(out.at("samples")[0].at("predicted").get<double>() / 3.65765776 - 1) < 1e-6);
}

BOOST_AUTO_TEST_CASE(the_predictions_are_written_as_csv) {
  const table_folder f;
  check_exit(0,
             f.troupe({"simulate", "--table", "two.csv", "--hardware", "megatron_deepspeed_a100", "--out", "p.csv"}));
  const auto text = scratch_folder::read(f.folder / "p.csv");
  BOOST_TEST(
      text.starts_with("line,quantity,unit,hardware,measured,predicted,low,high,error_percent,memory,matter_most,"
                       "compute_s,exposed_communication_s,host_s,bubble_s,update_s,straggler_s\n"
                       "2,step,s,megatron_deepspeed_a100,3.5665,3.65765"),
      text);
  BOOST_TEST(std::ranges::count(text, '\n') == 3);
}

BOOST_AUTO_TEST_CASE(a_fit_shows_constants_and_errors_and_writes_hardware_that_simulate_reads) {
  const table_folder f;
  const auto r =
      check_exit(0, f.troupe({"calibrate", "--fit", "steps.csv", "--hardware", "h100", "--out", "own.yaml"}));
  for (const char* words :
       {"7 constants of megatron_h100 fitted to 28 rows", "product_share", "left out by hidden x layers", "8192x80",
        "80 % of rows lie within a factor of 1.011", "largest residuals:"})
    BOOST_TEST(has(r.out, words), words << " in\n" << r.out);
  const auto own = check_exit(0, f.troupe({"simulate", "--table", "steps.csv", "--hardware", "own.yaml"}));
  BOOST_TEST(has(own.out, "priced by own (Megatron-LM, NeMo on h100)"), own.out);
  BOOST_TEST(has(own.out, "0.7 %"), own.out);
  const auto again = check_exit(0, f.troupe({"calibrate", "--fit", "steps.csv", "--hardware", "own.yaml", "--json"}));
  const auto out = nlohmann::json::parse(again.out);
  BOOST_TEST(out.at("quantities")[0].at("constants").size() == 7U);
  BOOST_TEST(out.at("quantities")[0].at("fitted").at("mean_percent").get<double>() < 1);
  BOOST_TEST(out.at("quantities")[0].at("left_out").at("mean_percent").get<double>() < 3);
}

BOOST_AUTO_TEST_CASE(wrong_tables_and_hardware_are_refused_by_name) {
  const table_folder f;
  const auto refused = [&](const std::vector<std::string>& words, const std::string& why) {
    const auto r = check_exit(2, f.troupe(words));
    BOOST_TEST(has(r.err, why), r.err);
  };
  refused({"simulate", "--table", "two.csv"}, "--hardware: wanted what ran the table's rows, one of {");
  refused({"simulate", "--hardware", "h100"}, "simulate: wanted the file of a job, or --table FILE.csv");
  refused({"simulate", "job.yaml", "--table", "two.csv", "--hardware", "h100"},
          "--table: cannot be combined with a job, job.yaml");
  refused({"simulate", "job.yaml", "--hardware", "h100"},
          "bf16.enabled: all constants of megatron_h100 are of 16-bit products");
  refused({"simulate", "--table", "two.csv", "--hardware", "h100", "--seed", "3"},
          "--seed would do nothing here: it is for a job");
  refused({"simulate", "--table", "none.csv", "--hardware", "h100"}, "cannot read 'none.csv'");
  refused({"simulate", "--table", "two.csv", "--hardware", "h10"},
          "unknown hardware 'h10', the nearest is h100; known are");
  refused({"simulate", "--table", "two.csv", "--hardware", "h100"},
          "the card h100 has no stack for tables of this form");
  f.folder.write("bad.csv", columns + "64,512,8,3072,32,30,2048,1,64,1,soon\n");
  refused({"simulate", "--table", "bad.csv", "--hardware", "megatron_deepspeed_a100"},
          "bad.csv:2: iteration time (ms): wanted a finite number above 0, got soon");
  refused({"calibrate", "--fit", "bad.csv", "--hardware", "megatron_deepspeed_a100"}, "bad.csv:2: iteration time (ms)");
  refused({"calibrate", "--fit", "steps.csv", "--hardware", "h100", "--out", "own.yml"},
          "--out: wanted a name that ends in .yaml, as --hardware reads it, got own.yml");
  BOOST_TEST(!fs::exists(f.folder / "own.yml"));
}

BOOST_AUTO_TEST_CASE(embedded_hardware_is_offered_for_completion) {
  const command_folder f;
  const auto r = check_exit(0, f.troupe({"completion", "--words", "simulate", "--hardware", "megatron_h"}));
  BOOST_TEST(r.out == "megatron_h100\nmegatron_h200\n", r.out);
}

BOOST_AUTO_TEST_SUITE_END()
