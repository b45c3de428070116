#include "cluster/kept_saves.hpp"

#include <boost/test/unit_test.hpp>

namespace {

/// Two files of a save: one of machine 0, one of machine 1 with a copy on 0.
void write_save(troupe::cluster::kept_saves& to, const std::string& name) {
  const std::string written = "/s/" + name + ".writing";
  to.add(written + "/first", 10, {}, 0);
  to.add(written + "/second", 20, {}, 1);
  to.add(written + "/second", 20, {}, 0);
  to.whole("/s/" + name, written);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(kept_saves)

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

BOOST_AUTO_TEST_SUITE_END()
