#include "cluster/kept_saves.hpp"

#include <fcntl.h>
#include <fmt/format.h>

#include <boost/test/unit_test.hpp>

#include <string>

BOOST_AUTO_TEST_SUITE(kept_saves)

namespace {

/// Adds two files of a save: one on machine 0, and one on machine 1 with a copy on machine 0.
void write_save(troupe::cluster::kept_saves& to, const std::string& name) {
  const std::string written = "/s/" + name + ".writing";
  to.add(written + "/first", 10, {}, 0);
  to.add(written + "/second", 20, {}, 1);
  to.add(written + "/second", 20, {}, 0);
  to.whole("/s/" + name, written);
}

}  // namespace

BOOST_AUTO_TEST_CASE(the_two_newest_whole_saves_stay) {
  troupe::cluster::kept_saves all;
  BOOST_TEST(all.newest({0, 1}) == "");
  for (const char* name : {"1", "2", "3"}) write_save(all, name);
  BOOST_TEST(all.newest({0, 1}) == "/s/3");
  BOOST_TEST(all.of("/s/3").size() == 2U);
  BOOST_TEST(all.of("/s/2").size() == 2U);
  BOOST_TEST(all.of("/s/1").empty());
}

BOOST_AUTO_TEST_CASE(a_save_counts_only_where_all_its_files_can_be_read) {
  troupe::cluster::kept_saves all;
  write_save(all, "1");
  all.add("/s/2.writing/first", 10, {}, 1);
  all.whole("/s/2", "/s/2.writing");
  BOOST_TEST(all.newest({0, 1}) == "/s/2");
  BOOST_TEST(all.newest({0}) == "/s/1");
  all.lose(1);
  BOOST_TEST(all.newest({0, 1}) == "/s/1");
  all.lose(0);
  BOOST_TEST(all.newest({0, 1}) == "");
}

BOOST_AUTO_TEST_CASE(a_copy_may_be_told_of_after_its_save_is_whole) {
  troupe::cluster::kept_saves all;
  all.add("/s/1.writing/first", 10, {}, 1);
  all.whole("/s/1", "/s/1.writing");
  all.add("/s/1.writing/first", 10, {}, 0);
  all.lose(1);
  BOOST_TEST(all.newest({0}) == "/s/1");
}

// A run to which a host returns continues at the step that fewer ranks have saved, and saves that step again.
BOOST_AUTO_TEST_CASE(a_step_that_is_saved_once_more_by_other_ranks_keeps_nothing_of_the_save_before) {
  troupe::cluster::kept_saves all;
  all.add("/s/1.a/first", 30, {}, 0);
  all.add("/s/1.a/manifest", 5, {}, 0);
  all.add("/s/1.a/odd", 5, {}, 0);
  all.whole("/s/1", "/s/1.a");
  all.add("/s/1.b/first", 20, {}, 0);
  all.add("/s/1.b/second", 20, {}, 1);
  all.add("/s/1.b/manifest", 6, {}, 0);
  all.whole("/s/1", "/s/1.b");
  all.add("/s/1.a/odd", 5, {}, 1);  // a copy of the previous save's file arrives late
  const auto files = all.of("/s/1");
  BOOST_TEST(files.size() == 3U);
  BOOST_TEST(files.at("/s/1/first")->bytes == 20U);
  BOOST_TEST(files.at("/s/1/manifest")->bytes == 6U);
  BOOST_TEST((files.at("/s/1/second")->machines == std::vector<uint32_t>{1}));
}

// The copies on the first machine are reported directly to it, and may arrive before its message that the previous save
// is complete.
BOOST_AUTO_TEST_CASE(files_of_the_next_save_may_be_told_of_before_the_one_before_is_whole) {
  troupe::cluster::kept_saves all;
  all.add("/s/1.writing/first", 10, {}, 0);
  all.add("/s/2.writing/first", 10, {}, 0);
  all.whole("/s/1", "/s/1.writing");
  all.whole("/s/2", "/s/2.writing");
  BOOST_TEST(all.newest({0}) == "/s/2");
  BOOST_TEST(all.of("/s/2").size() == 1U);
}

BOOST_AUTO_TEST_CASE(what_was_written_in_vain_goes) {
  troupe::cluster::kept_saves all;
  all.add("/s/lost.writing/first", 10, {}, 0);
  for (const char* name : {"1", "2"}) write_save(all, name);
  BOOST_TEST(all.of("/s/lost.writing").empty());
}

// A process whose part fails sends no message in this test, and the parts of the others have already been reported.
BOOST_AUTO_TEST_CASE(files_of_saves_that_fail_one_after_the_other_do_not_pile_up) {
  using troupe::cluster::begun_saves_max;
  troupe::cluster::kept_saves all;
  write_save(all, "1");
  const auto memory = troupe::cluster::own(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  for (int i = 0; i < 50; ++i) all.add(fmt::format("/s/failed{}/first", i), 10, {memory}, 0);
  BOOST_TEST(memory.use_count() == 1 + static_cast<long>(begun_saves_max));
  BOOST_TEST(all.newest({0}) == "/s/1");
  write_save(all, "2");
  write_save(all, "3");
  BOOST_TEST(memory.use_count() == 1);
}

// A file outside of the folders of saves is reported at each step under another name. Such files were once never
// released.
BOOST_AUTO_TEST_CASE(files_that_belong_to_no_save_do_not_pile_up_and_take_no_save_along) {
  troupe::cluster::kept_saves all;
  const auto memory = troupe::cluster::own(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  for (int step = 1; step <= 100; ++step) {
    write_save(all, fmt::to_string(step));
    all.add(fmt::format("/s/latest.writing-{}", step), 10, {memory}, 0);
  }
  BOOST_TEST(memory.use_count() <= 4);
  BOOST_TEST(all.newest({0, 1}) == "/s/100");
  BOOST_TEST(all.of("/s/100").size() == 2U);
  BOOST_TEST(all.of("/s/99").size() == 2U);
}

BOOST_AUTO_TEST_SUITE_END()
