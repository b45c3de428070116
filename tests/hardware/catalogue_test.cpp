// Tests the files of cards and stacks: those that the program contains, those of a user, and what is refused in them.
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <filesystem>
#include <set>

#include "hardware/calibration.hpp"
#include "hardware/catalogue.hpp"
#include "hardware/step_form.hpp"
#include "tests/check_ok.hpp"
#include "tests/places.hpp"
#include "tests/scratch_folder.hpp"

BOOST_AUTO_TEST_SUITE(catalogue)

using namespace troupe;
using namespace troupe::hardware;
using namespace troupe::tests;

namespace {

namespace fs = std::filesystem;

std::string text_of(const std::string& name) {
  return scratch_folder::read(fs::path(places::source_dir) / "hardware" / (name + ".yaml"));
}

std::string changed(std::string text, const std::string& piece, const std::string& instead) {
  const auto at = text.find(piece);
  BOOST_TEST_REQUIRE(at != std::string::npos, piece);
  return text.replace(at, piece.size(), instead);
}

}  // namespace

BOOST_AUTO_TEST_CASE(the_program_contains_every_file_of_the_folder) {
  std::set<std::string> on_disk, embedded;
  for (const auto& entry : fs::directory_iterator(fs::path(places::source_dir) / "hardware"))
    if (entry.path().extension() == ".yaml") on_disk.insert(entry.path().stem().string());
  for (const auto& file : embedded_files()) {
    embedded.insert(std::string(file.name));
    BOOST_TEST(file.text == text_of(std::string(file.name)), file.name);
  }
  size_t networks = 0;
  for (const auto& file : embedded_networks()) {
    BOOST_TEST(embedded.insert(std::string(file.name)).second, file.name);
    BOOST_TEST(file.text == text_of(std::string(file.name)), file.name);
    ++networks;
  }
  BOOST_TEST(networks == 5U);
  BOOST_TEST(on_disk == embedded, boost::test_tools::per_element());
  BOOST_TEST(embedded.size() > 20U);
}

BOOST_AUTO_TEST_CASE(every_embedded_file_can_be_read_and_says_where_its_constants_come_from) {
  size_t cards = 0;
  for (const auto& file : embedded_files()) {
    const auto one = check_ok(find_hardware(std::string(file.name)));
    cards += one->index() == 0 ? 1 : 0;
  }
  BOOST_TEST(cards == 7U);
  const auto all = check_ok(embedded_stacks());
  for (const auto& by : *all) {
    BOOST_TEST(!by.tables.empty(), by.name);
    for (const auto& model : by.models)
      for (const auto& c : model.given) BOOST_TEST((!c.source.empty() && !c.meaning.empty()), by.name);
  }
}

BOOST_AUTO_TEST_CASE(a_network_is_found_by_its_name_or_its_path) {
  const auto shipped = check_ok(find_network("dgx_h100"));
  BOOST_TEST(shipped->text == text_of("dgx_h100"));
  BOOST_TEST(shipped->file == "hardware/dgx_h100.yaml");
  const scratch_folder folder;
  const auto path = folder.write("net.yaml", "kind: network\n");
  const auto own = check_ok(find_network(path.string()));
  BOOST_TEST(own->text == "kind: network\n");
  BOOST_TEST(own->file == path.string());
  check_failed(find_network((folder.path() / "none.yaml").string()), "none.yaml");
  check_failed(find_network("dgx_h10"),
               "unknown network 'dgx_h10', the nearest is dgx_h100; known are dgx_a100, dgx_b200, dgx_h100, "
               "ethernet_10g, h100_512, and paths that end in .yaml");
}

BOOST_AUTO_TEST_CASE(a_stack_that_inherits_has_the_constants_of_the_other_and_no_interval) {
  const auto both = check_ok(choose_stacks({"fsdp_h100", "fsdp_h200"}, ""));
  const auto &from = both->front(), &to = both->back();
  BOOST_TEST(to.inherited_from == "fsdp_h100");
  BOOST_TEST(to.on.memory_bytes_per_s == 4800e9);
  const auto *of_parent = from.find(quantity::step), *own = to.find(quantity::step);
  BOOST_TEST(own->values.product_share == of_parent->values.product_share);
  BOOST_TEST(!std::isnan(of_parent->fitted_factor));
  BOOST_TEST(std::isnan(own->fitted_factor));
  BOOST_TEST(std::isnan(own->other_factor));
}

BOOST_AUTO_TEST_CASE(inherited_constants_may_be_scaled_for_another_card) {
  const scratch_folder folder;
  const auto with = [&](const std::string& scales) {
    return folder
        .write("other.yaml",
               "kind: stack\nsoftware: none\ncard: h100\ntables: [sharded_runs]\ninherits:\n  stack: fsdp_a100\n"
               "  because: no rows of this card\n  scales:\n" +
                   scales)
        .string();
  };
  const auto from = check_ok(choose_stacks({"fsdp_a100"}, ""));
  const auto to = check_ok(choose_stacks({with("    product_share: {factor: 0.5, source: another stack}\n")}, ""));
  const auto &before = from->front().find(quantity::step)->values, &after = to->front().find(quantity::step)->values;
  BOOST_TEST(after.product_share == 0.5 * before.product_share);
  BOOST_TEST(after.attention_share == before.attention_share);
  check_failed(choose_stacks({with("    logit_bytes: {factor: 0.5, source: x}\n")}, ""),
               "inherits.scales.logit_bytes: unknown inherited constant");
  check_failed(choose_stacks({with("    product_share: {factor: 9, source: x}\n")}, ""),
               "inherits.scales.product_share: product_share x 9 is more than 1");
  check_failed(choose_stacks({with("    product_share: {factor: -1, source: x}\n")}, ""),
               "inherits.scales.product_share.factor: wanted a finite number above 0");
  check_failed(choose_stacks({with("    product_share: {factor: 1}\n")}, ""), "product_share.source is missing");
}

BOOST_AUTO_TEST_CASE(a_file_of_a_user_is_read_by_its_path) {
  const scratch_folder folder;
  const auto path = folder.write("own.yaml", text_of("megatron_h100"));
  const auto chosen = check_ok(choose_stacks({path.string()}, "released_runs"));
  BOOST_TEST(chosen->front().name == "own");
  BOOST_TEST(chosen->front().on.name == "h100");
}

BOOST_AUTO_TEST_CASE(a_stack_that_is_written_reads_back_the_same) {
  const scratch_folder folder;
  const auto all = check_ok(embedded_stacks());
  for (const auto& by : *all) {
    const auto text = stack_text(by);
    const auto path = folder.write("written.yaml", text);
    const auto again = check_ok(choose_stacks({path.string()}, ""));
    BOOST_TEST(stack_text(again->front()) == text);
    const double network = again->front().on.network_bytes_per_s;
    BOOST_TEST((network == by.on.network_bytes_per_s || std::isnan(by.on.network_bytes_per_s)));
  }
}

BOOST_AUTO_TEST_CASE(an_unknown_name_is_refused_with_the_known_ones_and_the_nearest) {
  const auto none = choose_stacks({"megatron_h10"}, "");
  check_failed(none, error_kind::bad_input,
               "unknown hardware 'megatron_h10', the nearest is megatron_h100; known are a100,");
  check_failed(choose_stacks({"nowhere/x.yaml"}, ""), "cannot read 'nowhere/x.yaml'");
}

BOOST_AUTO_TEST_CASE(a_card_selects_its_stack_for_a_table_or_lists_those_that_it_has) {
  BOOST_TEST(check_ok(choose_stacks({"h100"}, "sharded_runs"))->front().name == "fsdp_h100");
  check_failed(
      choose_stacks({"h100"}, "iterations"),
      "the card h100 has no stack for tables of this form (iterations); name a stack: fsdp_h100, megatron_h100");
  check_failed(choose_stacks({"a100"}, "iterations"), "several stacks for tables of this form");
}

BOOST_AUTO_TEST_CASE(a_card_selects_its_megatron_stack_for_jobs) {
  const std::pair<const char*, const char*> all[] = {
      {"h100", "megatron_h100"}, {"h200", "megatron_h200"},
      {"a100", "megatron_a100"}, {"a100_40", "megatron_deepspeed_a100_40"},
      {"b200", "megatron_b200"}, {"v100", "megatron_v100"},
      {"fsdp_h100", "fsdp_h100"}};
  for (const auto& [name, wanted] : all) BOOST_TEST(check_ok(choose_job_stack(name))->name == wanted);
  check_failed(choose_job_stack("a100_pcie"), "the card a100_pcie has no stack with constants of steps");
  check_failed(choose_job_stack("kernels_b200"), "the stack kernels_b200 has no constants of steps");
  const scratch_folder folder;
  const auto silent =
      folder.write("silent.yaml", changed(text_of("megatron_h100"), "tables: [released_runs]", "tables: [products]"));
  check_failed(choose_job_stack(silent.string()), "the stack silent does not say how its software computes a step");
  const auto card = folder.write("h100.yaml", text_of("h100"));
  check_failed(choose_job_stack(card.string()), "a card has no constants of software: wanted a stack");
}

BOOST_AUTO_TEST_CASE(stacks_with_steps_state_the_sizes_to_which_they_were_fitted) {
  const auto all = check_ok(embedded_stacks());
  for (const auto& by : *all) {
    if (by.find(quantity::step) == nullptr) continue;
    BOOST_TEST(by.fitted_from.size() == 3U, by.name);
    BOOST_TEST((step_form_of(by) != nullptr), by.name);
  }
  const auto by = check_ok(choose_stacks({"megatron_h100", "megatron_h200"}, ""));
  for (const auto& one : *by) {
    BOOST_TEST_REQUIRE(one.fitted_from.size() == 3U);
    BOOST_TEST(one.fitted_from[2].size == "gpus");
    BOOST_TEST((one.fitted_from[2].holds(16) && one.fitted_from[2].holds(2048) && !one.fitted_from[2].holds(8)));
  }
}

BOOST_AUTO_TEST_CASE(a_wrong_constant_is_refused_by_name_with_file_and_line) {
  const auto text = text_of("megatron_h100");
  const scratch_folder folder;
  const auto refused = [&](const std::string& piece, const std::string& instead, const std::string& words) {
    const auto path = folder.write("bad.yaml", changed(text, piece, instead)).string();
    const auto r = find_hardware(path);
    check_failed(r, error_kind::bad_input, words);
    BOOST_TEST(r.error().text.starts_with(path + ":"), r.error().text);
    const auto after = r.error().text.substr(path.size() + 1);
    BOOST_TEST((after[0] >= '1' && after[0] <= '9'), r.error().text);
  };
  refused("product_share: {value: 0.", "product_share: {value: -0.",
          "step.constants.product_share.value: wanted a finite number above 0 and at most 1, got -0.");
  refused("near_latency_s: {value: 2.5e-05", "near_latency_s: {value: 1e999",
          "near_latency_s.value: wanted a finite number of at least 0, got 1e999");
  refused("near_latency_s: {value: 2.5e-05", "near_latency_s: {value: .nan", "got .nan");
  refused("near_latency_s: {value: 2.5e-05", "near_latency_s: {value: fast", "got fast");
  refused("host_sharpness: {value: 3", "host_sharpness: {value: 0.5", "wanted a finite number of at least 1, got 0.5");
  refused("far_latency_s", "far_latency",
          "step.constants.far_latency: unknown constant of step, the nearest is far_latency_s");
  refused("far_latency_s", "logit_bytes", "step.constants.logit_bytes: unknown constant of step");
  refused("host_sharpness:", "slow_pcie_factor:", "unit: wanted factor, got 1");
  refused("unit: share", "unit: percent", "step.constants.product_share.unit: wanted share, got percent");
  refused("log_sigma: 0.1,", "", "step.constants.product_share.log_sigma is missing");
  refused("source: kernel tables", "sauce: kernel tables", "sauce: unknown key, the nearest is source");
  refused(", source: fitted to 28 rows of NVIDIA/dgxc-benchmarking}", "}", "product_share.source is missing");
  refused("card: h100", "card: h10", "unknown hardware 'h10', the nearest is h100");
  refused("card: h100", "card: fsdp_h100", "wanted a card, got the stack fsdp_h100");
  refused("kind: stack", "kind: stake", "kind: wanted card or stack, got stake");
  refused("step:\n", "steps:\n", "steps: unknown key, the nearest is step");
  refused("layers: [32, 80]", "layers: [80, 32]",
          "fitted_from.layers: wanted two numbers above 0, the least and the most, got ");
  refused("layers: [32, 80]", "layers: [80]", "fitted_from.layers: wanted two numbers above 0");
  refused("layers: [32, 80]", "layers: [few, 80]", "fitted_from.layers: wanted two numbers above 0");
  refused("layers: [32, 80]", "layer: [32, 80]", "fitted_from.layer: unknown size, the nearest is layers");
  refused("fitted_shapes: 1.", "fitted_shapes: 0.",
          "step.interval.fitted_shapes: wanted a finite number of at least 1");
  const auto h = text.find("    host_sharpness"), end = text.find("    hop_latency_s");
  const auto path = folder.write("bad.yaml", text.substr(0, h) + text.substr(end)).string();
  check_failed(find_hardware(path), path + ":");
  check_failed(find_hardware(path), "step.constants.host_sharpness is missing");
}

BOOST_AUTO_TEST_CASE(a_stack_that_inherits_from_itself_is_refused) {
  const scratch_folder folder;
  const auto path = (folder / "self.yaml").string();
  folder.write("self.yaml", "kind: stack\nsoftware: none\ncard: h100\ntables: [iterations]\ninherits: {stack: " + path +
                                ", because: it does}\n");
  check_failed(find_hardware(path), "stacks inherit from one another more than 4 deep");
}

BOOST_AUTO_TEST_SUITE_END()
