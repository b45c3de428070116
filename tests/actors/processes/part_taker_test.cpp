// Tests that parts written by other processes are added to their save, and that a save whose parts never arrive ends.
#include "actors/processes/part_taker.hpp"

#include <boost/test/unit_test.hpp>

#include "tests/actors/saving/save_rig.hpp"
#include "tests/fakes/file_system.hpp"

BOOST_AUTO_TEST_SUITE(part_taker)

using namespace troupe;
using namespace troupe::actors;
using storage::fake_files;

namespace {

const ranks_here first_here{true, false}, second_here{false, true};

plan::plan_options two_ranks() { return with_staging(2, 1, 100'000); }

/// A save that one process leads. The other process has written its part, and its notification is in `notes`.
struct written {
  save_rig rig{two_ranks(), some_table(true)};
  fake_files files;
  std::shared_ptr<save_job> leads;
  std::vector<std::string> notes;

  explicit written(uint64_t run) {
    auto made = rig.begin(files, 7, {}, first_here);
    BOOST_REQUIRE(made.has_value());
    leads = *made;
    const auto tell = [&](const part_result& part) { notes.push_back(part_taker::note(run, part)); };
    rig.run(save_job::join(files, leads->invitation(), {}, 7, rig.plans, {}, second_here, tell), SIZE_MAX, second_here);
    BOOST_REQUIRE(notes.size() == 1U);
  }
};

}  // namespace

BOOST_AUTO_TEST_CASE(the_last_part_commits_whoever_writes_it) {
  for (const bool others_last : {false, true}) {
    BOOST_TEST_INFO_SCOPE("others last " << others_last);
    written w(5);
    actors::part_taker parts;
    parts.expect(5, w.leads);
    if (!others_last) parts.hear(w.notes.front());
    w.rig.run(w.leads, SIZE_MAX, first_here);
    if (others_last) parts.hear(w.notes.front());
    const auto report = w.leads->wait();
    BOOST_TEST(!report.failure);
    w.rig.expect_in(w.files, 7);
  }
}

BOOST_AUTO_TEST_CASE(notes_of_other_runs_and_what_is_no_note_are_passed_over) {
  written w(5);
  actors::part_taker parts;
  parts.expect(6, w.leads);
  parts.hear(w.notes.front());
  parts.hear("no note");
  parts.hear({});
  w.rig.run(w.leads, SIZE_MAX, first_here);
  parts.give_up({core::error_kind::peer_lost, "rank 1 was lost"});
  const auto report = w.leads->wait();
  BOOST_REQUIRE(report.failure.has_value());
  BOOST_TEST(report.failure->text.find("rank 1 was lost") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(the_end_abandons_what_waits) {
  written w(5);
  {
    actors::part_taker parts;
    parts.expect(5, w.leads);
    w.rig.run(w.leads, SIZE_MAX, first_here);
  }
  BOOST_TEST(w.leads->wait().failure.has_value());
}

BOOST_AUTO_TEST_SUITE_END()
