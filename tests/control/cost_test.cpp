// Compares the cost of control, in machine instructions, with tests/control/bounds.txt. valgrind counts the
// instructions of executors that do no work, so that neither the machine nor its load changes the result.
#include <fmt/format.h>

#include <boost/test/unit_test.hpp>
#include <cstdio>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "tests/places.hpp"
#include "tests/scratch_folder.hpp"

BOOST_AUTO_TEST_SUITE(cost)

namespace {

constexpr int steps = 5;
constexpr double plan_rank_instructions_max = 2.3e6;
// Allowed excess over a bound; other versions of the compiler and of CAF differ by less.
constexpr double tolerance = 0.10;
// Least share of a bound that a count must reach; a bound far above its count would detect nothing.
constexpr double renew_below = 0.75;
// Allowed growth of the cost per instruction from the smallest job to the largest.
constexpr double growth_tolerance = 0.25;

struct bound {
  int ranks = 0, units = 0;
  double instructions = 0;
};

std::vector<bound> bounds() {
  std::ifstream in((std::string(troupe::places::source_dir) + "/tests/control/bounds.txt"));
  std::vector<bound> out;
  for (std::string line; std::getline(in, line);) {
    if (line.empty() || line.front() == '#') continue;
    bound b;
    std::istringstream(line) >> b.ranks >> b.units >> b.instructions;
    BOOST_REQUIRE_MESSAGE(b.instructions > 0, "bounds.txt: wanted ranks, units and instructions, got " << line);
    out.push_back(b);
  }
  return out;
}

// Returns the number of machine instructions per instruction of the plan.
double measured(int ranks, int units) {
  std::ostringstream command;
  command << "'" TROUPE_VALGRIND
             "' --tool=callgrind --callgrind-out-file=/dev/null --collect-atstart=no "
             "--toggle-collect=count_steps '"
          << troupe::places::control_steps << "' " << ranks << ' ' << units << ' ' << steps << " 2>&1";
  const std::unique_ptr<FILE, int (*)(FILE*)> out(::popen(command.str().c_str(), "r"), ::pclose);
  BOOST_REQUIRE(out);
  std::string said, collected;
  uint64_t in_plan = 0;
  for (char buffer[512]; std::fgets(buffer, sizeof buffer, out.get()) != nullptr;) {
    const std::string line(buffer);
    said += line;
    if (line.front() == '{') in_plan = nlohmann::json::parse(line).at("instructions").get<uint64_t>();
    if (const auto at = line.find("Collected :"); at != std::string::npos) collected = line.substr(at + 11);
  }
  BOOST_REQUIRE_MESSAGE(in_plan > 0 && !collected.empty(), "valgrind counted nothing: " << said);
  return std::stod(collected) / double(steps) / double(in_plan);
}

// Returns the number of machine instructions that `troupe plan` with `options` executes for `job`; its output must
// contain `words`.
double counted(const std::string& job, const std::string& options, const std::string& words) {
  const troupe::tests::scratch_folder folder;
  folder.write("corpus.txt", "text\n");
  const auto file = folder.write("job.yaml", job);
  const std::string command = "'" TROUPE_VALGRIND "' --tool=callgrind --callgrind-out-file=/dev/null '" +
                              (std::string(troupe::places::troupe_binary) + "' plan '") + file.string() + "'" +
                              options + " 2>&1";
  const std::unique_ptr<FILE, int (*)(FILE*)> out(::popen(command.c_str(), "r"), ::pclose);
  BOOST_REQUIRE(out);
  std::string said, collected;
  for (char buffer[512]; std::fgets(buffer, sizeof buffer, out.get()) != nullptr;) {
    const std::string line(buffer);
    said += line;
    if (const auto at = line.find("Collected :"); at != std::string::npos) collected = line.substr(at + 11);
  }
  BOOST_REQUIRE_MESSAGE(!collected.empty() && said.find(words) != std::string::npos, said);
  return std::stod(collected);
}

double planned(int ranks) {
  return counted(fmt::format("model: {{model_type: gpt2, n_layer: 12, n_embd: 768, n_head: 12, n_positions: 64, "
                             "vocab_size: 50257}}\n"
                             "data: {{text: corpus.txt}}\nparallel: {{data: {}}}\nseed: 1\nsteps: 10\n"
                             "train_micro_batch_size_per_gpu: 1\n"
                             "optimizer: {{type: AdamW, params: {{lr: 1.0e-3}}}}\nzero_optimization: {{stage: 3}}\n",
                             ranks),
                 "", "proved");
}

double explained(int layers) {
  return counted(
      fmt::format("model: {{model_type: gpt2, n_layer: {}, n_embd: 8, n_head: 2, n_positions: 16, vocab_size: 64}}\n"
                  "data: {{text: corpus.txt}}\nparallel: {{data: 2}}\nseed: 1\nsteps: 10\n"
                  "train_micro_batch_size_per_gpu: 1\n"
                  "optimizer: {{type: AdamW, params: {{lr: 1.0e-3}}}}\nzero_optimization: {{stage: 3}}\n"
                  "compression_training:\n"
                  "  weight_quantization:\n"
                  "    shared_parameters: {{enabled: true, quantization_type: symmetric}}\n"
                  "    different_groups: {{all: {{params: {{start_bits: 8, target_bits: 8}}, modules: [\"h.\"]}}}}\n",
                  layers),
      " --explain", "the schedule in its plain form");
}

}  // namespace

// A job has five plans, with their classes and their checks; in jobs of up to 64 ranks each rank has a plan of its own.
BOOST_AUTO_TEST_CASE(a_rank_more_adds_a_bounded_number_of_machine_instructions_to_a_plan) {
  constexpr int few = 96, many = 192;
  const double of_a_rank = (planned(many) - planned(few)) / (many - few);
  BOOST_TEST_MESSAGE("machine instructions of a rank: " << of_a_rank);
  BOOST_TEST(of_a_rank <= plan_rank_instructions_max);
}

// Work that grows with the square of the layers would make a layer of the second half twice as expensive.
BOOST_AUTO_TEST_CASE(an_explanation_of_compressed_layers_costs_the_same_for_each_layer) {
  constexpr int few = 24, more = 48, many = 96;
  const double half = explained(more);
  const double of_first = (half - explained(few)) / (more - few), of_second = (explained(many) - half) / (many - more);
  BOOST_TEST_MESSAGE("machine instructions of a layer: " << of_first << ", " << of_second);
  BOOST_TEST(of_second <= (1 + growth_tolerance) * of_first);
}

BOOST_AUTO_TEST_CASE(control_spends_no_more_machine_instructions_than_it_did) {
  std::vector<double> all;
  for (const auto& b : bounds()) {
    all.push_back(measured(b.ranks, b.units));
    BOOST_TEST_MESSAGE("bounds.txt: " << b.ranks << ' ' << b.units << ' ' << static_cast<long>(all.back() + 0.5));
    BOOST_TEST(all.back() <= (1 + tolerance) * b.instructions);
    BOOST_TEST(all.back() >= renew_below * b.instructions,
               "bounds.txt is out of date, control became cheaper: " << b.ranks << " ranks, " << b.units << " units, "
                                                                     << all.back());
  }
  BOOST_REQUIRE(all.size() >= 2U);
}

BOOST_AUTO_TEST_CASE(an_instruction_costs_the_same_in_a_large_job_as_in_a_small_one) {
  const auto rows = bounds();
  const double small = measured(2, 8);
  for (const auto& b : rows) BOOST_TEST(b.instructions <= (1 + growth_tolerance) * small);
}

BOOST_AUTO_TEST_SUITE_END()
