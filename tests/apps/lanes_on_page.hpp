// Reads what a page of lanes draws, and opens such a page in a browser, if one is installed.
#pragma once

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <regex>
#include <stdexcept>
#include <string>

#include "tests/apps/topology.hpp"
#include "tests/skipped.hpp"

namespace troupe::tests {

/// Returns the object that the script of a page of lanes reads (telemetry/report/lanes_page.cpp).
inline nlohmann::json lanes_on(const std::string& page) {
  const std::string begin = "id=\"lanes-data\">";
  const auto at = page.find(begin);
  if (at == std::string::npos) throw std::runtime_error("the page draws no lanes");
  const auto from = at + begin.size();
  return nlohmann::json::parse(page.substr(from, page.find("</script>", from) - from));
}

/// Checks that a browser runs the page's script, wide and narrow: the script sets the size of the canvas. The limit of
/// the time includes the start of the browser.
inline void check_in_browser(const command_folder& f, const std::string& file) {
  if (!std::filesystem::exists("/usr/bin/chromium")) {
    say_skipped("a page of lanes in a browser", "no chromium is installed", "chromium");
    return;
  }
  for (const char* size : {"--window-size=1280,900", "--window-size=390,844"}) {
    const auto begin = std::chrono::steady_clock::now();
    const auto seen = run({"/usr/bin/chromium", "--headless=new", "--no-sandbox", "--disable-gpu", size,
                           "--user-data-dir=" + (f.folder / "browser").string(), "--virtual-time-budget=3000",
                           "--timeout=8000", "--dump-dom", "file://" + (f.folder / file).string()},
                          f.folder.path());
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    BOOST_TEST(std::regex_search(seen.out, std::regex("<canvas[^>]* width=\"")), seen.out.substr(0, 2000));
    BOOST_TEST(took.count() < 20);
  }
}

}  // namespace troupe::tests
