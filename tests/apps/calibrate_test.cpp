// Tests `troupe calibrate` of this machine, and the predictions of `troupe plan` by what it keeps.
#include <cmath>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "apps/plan/plan_costs.hpp"
#include "job/kept_costs.hpp"
#include "plan/choose/machine_costs.hpp"
#include "tests/apps/topology.hpp"

BOOST_AUTO_TEST_SUITE(calibrate)

using namespace troupe::tests;
namespace job = troupe::job;
namespace plan = troupe::plan;

namespace {

/// A folder whose cache is its own.
struct cache_folder : command_folder {
  [[nodiscard]] finished troupe_here(const std::vector<std::string>& words) const {
    return troupe(words, [this] { ::setenv("XDG_CACHE_HOME", (folder / "cache").c_str(), 1); });
  }
  [[nodiscard]] nlohmann::json json_of(std::vector<std::string> words) const {
    words.emplace_back("--json");
    return nlohmann::json::parse(check_exit(0, troupe_here(words)).out);
  }
  /// Keeps constants of this machine, as a calibration would.
  void keep(const plan::machine_costs& costs) const {
    job::kept_costs kept;
    kept.machine = troupe::apps::own_machine();
    kept.measured_at_s = static_cast<double>(std::time(nullptr)) - 7200;
    kept.types = {{troupe::core::dtype::f32, costs, costs, costs}};
    const auto name = job::kept_costs_file(kept.machine).filename();
    std::filesystem::create_directories(folder / "cache/troupe");
    folder.write("cache/troupe/" + name.string(), job::text_of(kept));
  }
};

plan::machine_costs made_up() {
  plan::machine_costs out;
  for (const auto& c : plan::machine_constants()) out.*c.field = c.unit == "s" ? 1e-5 : c.divides ? 1e10 : 16;
  return out;
}

}  // namespace

BOOST_AUTO_TEST_CASE(the_machine_is_measured_and_kept_unless_others_use_it) {
  const cache_folder f;
  const auto out = f.json_of({"calibrate", "--disk", "."});
  for (const char* rate : {"read_bytes_per_s", "written_bytes_per_s"})
    BOOST_TEST(out.at("disk").at(rate).get<double>() > 0, rate);
  BOOST_TEST(out.at("disk").at("folder") == f.folder.path().string());
  BOOST_TEST(out.at("format") == "troupe calibrate");
  for (const char* type : {"fp32", "bf16"})
    for (const auto& [name, constant] : out.at("types").at(type).items()) {
      BOOST_TEST(constant.at("lower").get<double>() <= constant.at("value").get<double>(), type << " " << name);
      BOOST_TEST(constant.at("value").get<double>() <= constant.at("upper").get<double>(), type << " " << name);
    }
  const bool is_busy = out.at("share_of_others").get<double>() > job::most_share_of_others;
  BOOST_TEST(out.at("kept").is_null() == is_busy);
  BOOST_TEST(out.contains("why_not_kept") == is_busy);
  const auto rates = f.json_of({"plan", "job.yaml"}).at("rates").get<std::string>();
  BOOST_TEST(has(rates, is_busy ? "usual rates of a CPU" : "constants measured 0 "), rates);
}

BOOST_AUTO_TEST_CASE(a_plan_is_predicted_by_kept_constants_and_says_how_old_they_are) {
  const cache_folder f;
  const auto usual = f.json_of({"plan", "job.yaml"});
  f.keep(made_up());
  const auto kept = f.json_of({"plan", "job.yaml"});
  BOOST_TEST(has(kept.at("rates").get<std::string>(), "constants measured 2 hours ago by troupe calibrate"));
  const auto& step = kept.at("predicted");
  BOOST_TEST(step.at("step_s") != usual.at("predicted").at("step_s"));
  BOOST_TEST(!usual.at("predicted").contains("low_s"));
  BOOST_TEST(step.at("low_s").get<double>() < step.at("step_s").get<double>());
  BOOST_TEST(step.at("high_s").get<double>() > step.at("step_s").get<double>());
  BOOST_TEST(step.at("matter_most").size() == 3U);
  auto slower = made_up();
  slower.product_flops_per_s /= 100;
  f.keep(slower);
  BOOST_TEST(f.json_of({"plan", "job.yaml"}).at("predicted").at("step_s").get<double>() >
             5 * kept.at("predicted").at("step_s").get<double>());
  const auto text = check_exit(0, f.troupe_here({"plan", "job.yaml"})).out;
  BOOST_TEST(has(text, "by constants measured 2 hours ago by troupe calibrate on "), text);
  BOOST_TEST(has(text, "80 % of runs are expected within "), text);
  BOOST_TEST(has(text, "1 % more of the constants that matter most: "), text);
}

BOOST_AUTO_TEST_CASE(a_run_chooses_by_kept_constants_what_the_plan_tells) {
  const cache_folder f;
  auto costs = made_up();
  costs.product_flops_per_s = 1e9;
  f.keep(costs);
  const auto passes_in = [](const std::string& text) {
    const auto at = text.find("predicted step ");
    BOOST_TEST_REQUIRE(at != std::string::npos, text);
    return text.substr(at, text.find('\n', at) - at);
  };
  for (const std::string processes : {"one", "ranks"}) {
    BOOST_TEST_INFO_SCOPE("processes " << processes);
    const std::vector<std::string> set{"--set", "compile=auto",       "--set", "cluster.processes=" + processes,
                                       "--set", "output=" + processes};
    std::vector<std::string> plan_words{"plan", "job.yaml"}, train_words{"train", "job.yaml"};
    for (auto* words : {&plan_words, &train_words}) words->insert(words->end(), set.begin(), set.end());
    const auto planned = check_exit(0, f.troupe_here(plan_words)), trained = check_exit(0, f.troupe_here(train_words));
    BOOST_TEST(has(planned.out, "passes: " + passes_in(trained.out)), planned.out + trained.out);
    BOOST_TEST(has(trained.out, "constants measured 2 hours ago by troupe calibrate"), trained.out);
  }

  const std::vector<std::string> open{
      "--set", "parallel={ranks: 2, data: auto, tensor: auto}", "--set", "train_batch_size=8", "--set", "output=auto"};
  std::vector<std::string> plan_words{"plan", "job.yaml", "--degrees"}, train_words{"train", "job.yaml"};
  for (auto* words : {&plan_words, &train_words}) words->insert(words->end(), open.begin(), open.end());
  const auto listed = check_exit(0, f.troupe_here(plan_words)), chose = check_exit(0, f.troupe_here(train_words));
  const auto at = chose.out.find("degrees: ");
  BOOST_TEST_REQUIRE(at != std::string::npos, chose.out);
  const auto line = chose.out.substr(at + 9, chose.out.find('\n', at) - at - 9);
  BOOST_TEST(has(listed.out, line), listed.out + line);
}

BOOST_AUTO_TEST_CASE(the_terms_of_every_instruction_add_up_to_its_predicted_time) {
  const cache_folder f;
  f.keep(made_up());
  const auto count = f.json_of({"plan", "job.yaml"}).at("instructions").get<uint32_t>();
  bool has_product = false;
  for (uint32_t id = 0; id < count; ++id) {
    const auto out = f.json_of({"plan", "job.yaml", "--explain-cost", std::to_string(id)});
    double sum = 0;
    for (const auto& term : out.at("terms")) {
      sum += term.at("seconds").get<double>();
      const double amount = term.at("amount"),
                   product = term.at("rate").get<double>() * term.at("seconds").get<double>();
      BOOST_TEST((product == 0 || std::abs(product - amount) <= 1e-9 * amount), term.dump());
      has_product = has_product || term.at("term").get<std::string>().starts_with("product ");
    }
    const double whole = out.at("seconds");
    BOOST_TEST(out.at("wakeup_s").get<double>() == made_up().wakeup_s);
    BOOST_TEST(std::abs(sum - whole) <= 1e-12 + 1e-9 * whole, out.dump());
  }
  BOOST_TEST(has_product);
  const auto text = check_exit(0, f.troupe_here({"plan", "job.yaml", "--explain-cost", "3"})).out;
  BOOST_TEST(has(text, "instruction 3 of rank 0, "), text);
  BOOST_TEST(has(text, "before it: 10.0 us for the message"), text);
  const auto none = check_exit(2, f.troupe_here({"plan", "job.yaml", "--explain-cost", "100000"}));
  BOOST_TEST(has(none.err, "--explain-cost: wanted an instruction below "), none.err);
}

BOOST_AUTO_TEST_CASE(a_kept_file_that_cannot_be_read_is_refused_with_its_line) {
  const cache_folder f;
  f.keep(made_up());
  const auto path = *std::filesystem::directory_iterator(f.folder / "cache/troupe");
  auto text = scratch_folder::read(path.path());
  text.replace(text.find("launch_s"), 8, "lunch_s");
  f.folder.write("cache/troupe/" + path.path().filename().string(), text);
  for (const char* command : {"plan", "train"}) {
    const auto r = check_exit(2, f.troupe_here({command, "job.yaml"}));
    BOOST_TEST(has(r.err, "unknown key lunch_s"), r.err);
  }
  BOOST_TEST(has(check_exit(2, f.troupe_here({"calibrate", "--out", "a.yaml"})).err, "--out would do nothing here"));
  const auto beside_fit = f.troupe_here({"calibrate", "--fit", "a.csv", "--hardware", "h100", "--disk", "."});
  BOOST_TEST(has(check_exit(2, beside_fit).err, "--disk would do nothing here"));
  BOOST_TEST(has(check_exit(2, f.troupe_here({"calibrate", "--disk", "nowhere"})).err, "--disk: wanted a folder"));
}

BOOST_AUTO_TEST_SUITE_END()
