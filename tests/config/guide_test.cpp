// docs/deepspeed.md shows what really comes of its files.
#include <fmt/format.h>

#include <boost/test/unit_test.hpp>
#include <fstream>
#include <sstream>
#include <vector>

#include "config/explain.hpp"
#include "tests/config/text.hpp"
#include "tests/scratch_folder.hpp"

using namespace troupe::config;

namespace {

/// The fenced blocks of the guide, without their fences.
std::vector<std::string> blocks() {
  std::ifstream in(std::string(TROUPE_SOURCE_DIR) + "/docs/deepspeed.md");
  BOOST_TEST_REQUIRE(in.good());
  std::vector<std::string> all;
  bool inside = false;
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("```")) {
      inside = !inside;
      if (inside) all.emplace_back();
    } else if (inside) {
      all.back().append(line).append("\n");
    }
  }
  return all;
}

load_options with(std::vector<std::string> overrides, reading read_as) {
  load_options options;
  options.overrides = std::move(overrides);
  options.read_as = read_as;
  return options;
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

BOOST_AUTO_TEST_SUITE(guide)

BOOST_AUTO_TEST_CASE(the_files_of_the_guide_say_what_it_shows) {
  const auto all = blocks();
  BOOST_TEST_REQUIRE(all.size() == 8U);
  const load_options plain = with({}, reading::either);
  BOOST_TEST(all[1] ==
             fmt::format("$ troupe config check ds_config.json\n{}", errors_of(all[0], plain, "ds_config.json")));

  std::string json = all[0];
  json.replace(json.find("overlap_com\""), 12, "overlap_comm\"");
  const auto good = load_text(json, "ds_config.json", "/base", plain);
  BOOST_TEST_REQUIRE(good.has_value(), (good ? std::string() : render(good.error())));
  BOOST_TEST(all[2].starts_with(render(good->warnings)));
  const std::string explained = explain(*good, false);
  std::istringstream shown(all[3].substr(all[3].find('\n') + 1));
  for (std::string line; std::getline(shown, line);)
    if (line != "...") BOOST_TEST(contains(explained, line), line);

  const troupe::tests::scratch_folder folder;
  folder.write("ds_config.json", json);
  const auto job = [&](std::vector<std::string> overrides) {
    return load_text(all[4], "job.yaml", folder.path(), with(std::move(overrides), reading::job));
  };
  const auto refused = job({});
  BOOST_TEST_REQUIRE(!refused.has_value());
  BOOST_TEST(all[5] == fmt::format("$ troupe config check job.yaml\n{}", render(refused.error())));
  const auto trains = job({"zero_optimization.zero_quantized_gradients=false"});
  BOOST_TEST_REQUIRE(trains.has_value(), (trains ? std::string() : render(trains.error())));
  BOOST_TEST(contains(all[6], fmt::format("\n{}job.yaml: good\n", render(trains->warnings))));

  const auto offload = load_text(all[7], "offload.yaml", folder.path(), with({}, reading::job));
  BOOST_TEST_REQUIRE(offload.has_value(), (offload ? std::string() : render(offload.error())));
  BOOST_TEST(render(offload->warnings) == "");
  BOOST_TEST(offload->config.swap_folder() == "/mnt/disk");
}

BOOST_AUTO_TEST_SUITE_END()
