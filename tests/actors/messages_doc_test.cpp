// Compares docs/messages.md with actors/messages.hpp: every message and every actor has a row, with the receivers and
// answers that the typed interfaces declare, and no row describes a message or an actor that does not exist.
#include <boost/test/unit_test.hpp>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>

#include "tests/places.hpp"

namespace {

std::string read(const std::string& name) {
  std::ifstream in(std::string(troupe::places::source_dir) + "/" + name);
  BOOST_REQUIRE_MESSAGE(in.good(), "cannot read " << name);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

void each_match(const std::string& text, const std::string& pattern, auto visit) {
  const std::regex what(pattern);
  for (std::sregex_iterator it(text.begin(), text.end(), what), end; it != end; ++it) visit(*it);
}

std::set<std::string> in_backticks(const std::string& cell) {
  std::set<std::string> out;
  each_match(cell, "`(\\w+)`", [&](const auto& m) { out.insert(m[1]); });
  return out;
}

struct row {
  std::string to, answer;
};

struct fixture {
  fixture() {
    const std::string header = read("actors/messages.hpp");
    each_match(header, "(^|\\n)struct (\\w+) \\{", [&](const auto& m) { messages.insert(m[2]); });
    each_match(header, "using (\\w+_actor) =\\s+typed_actor<([^;]*)>;", [&](const auto& actor) {
      const std::string name = actor[1], interface = actor[2];
      actors.insert(name);
      each_match(interface, "(reacts_to|replies_to)<(\\w+)>(::with<(\\w+)>)?", [&](const auto& m) {
        receivers[m[2]].insert(name);
        if (m[4].matched) answers[m[2]].insert(m[4]);
      });
    });
    std::istringstream page(read("docs/messages.md"));
    std::string section;
    for (std::string line; std::getline(page, line);) {
      if (line.rfind("## ", 0) == 0) section = line.substr(3);
      if (line.rfind("| `", 0) != 0) continue;
      std::vector<std::string> cells;
      std::istringstream fields(line);
      for (std::string cell; std::getline(fields, cell, '|');) cells.push_back(cell);
      const std::string name = *in_backticks(cells[1]).begin();
      if (section == "Actors") {
        BOOST_TEST(told_actors.insert(name).second, name << " has two rows");
      } else if (section == "Every message") {
        BOOST_REQUIRE_MESSAGE(cells.size() == 8, name << " has " << cells.size() - 1 << " columns");
        BOOST_TEST(rows.emplace(name, row{cells[4], cells[5]}).second, name << " has two rows");
      }
    }
  }

  std::set<std::string> messages, actors, told_actors;
  std::map<std::string, std::set<std::string>> receivers, answers;
  std::map<std::string, row> rows;
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(messages_doc, fixture)

BOOST_AUTO_TEST_CASE(the_header_was_understood) {
  BOOST_TEST(messages.count("run_plan") == 1U);
  BOOST_TEST(actors.count("lane_actor") == 1U);
  BOOST_TEST(answers["next_batch"].count("batch_ready") == 1U);
  for (const auto& [message, who] : receivers)
    BOOST_TEST(messages.count(message) == 1U, message << " is received but no struct");
}

BOOST_AUTO_TEST_CASE(every_message_has_a_row_and_every_row_a_message) {
  for (const auto& m : messages) BOOST_TEST(rows.count(m) == 1U, m << " has no row in docs/messages.md");
  for (const auto& [name, r] : rows)
    BOOST_TEST(messages.count(name) == 1U, name << " is no message of actors/messages.hpp");
}

BOOST_AUTO_TEST_CASE(every_actor_has_a_row_and_every_row_an_actor) {
  BOOST_TEST(told_actors == actors, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(rows_name_the_receivers_that_the_interfaces_declare) {
  for (const auto& [name, r] : rows) {
    std::set<std::string> told;
    for (const auto& x : in_backticks(r.to))
      if (actors.count(x) == 1) told.insert(x);
    BOOST_TEST(told == receivers[name], name << ": its receivers differ from the header's");
  }
}

BOOST_AUTO_TEST_CASE(rows_name_the_answers_that_the_interfaces_declare) {
  for (const auto& [name, r] : rows)
    BOOST_TEST(in_backticks(r.answer) == answers[name], name << ": its answer differs from the header's");
}

BOOST_AUTO_TEST_CASE(a_message_without_receiver_is_an_answer) {
  std::set<std::string> given;
  for (const auto& [name, all] : answers) given.insert(all.begin(), all.end());
  for (const auto& m : messages) BOOST_TEST((receivers.count(m) == 1 || given.count(m) == 1), m << " reaches nobody");
}

BOOST_AUTO_TEST_SUITE_END()
