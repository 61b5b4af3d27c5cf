"""tools/changed_since.sh finds where the change at hand began, in every kind of clone that CI may have."""
import os
import subprocess
import tempfile
import unittest

SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../tools/changed_since.sh")
HOUR = 3600


class Repository:
    def __init__(self, folder):
        self.folder = folder
        self.git("init", "-q", "-b", "main")

    def git(self, *args, at=0):
        date = f"{1_700_000_000 + at} +0000"
        env = dict(os.environ, GIT_AUTHOR_DATE=date, GIT_COMMITTER_DATE=date, GIT_CONFIG_GLOBAL="/dev/null",
                   GIT_CONFIG_NOSYSTEM="1")
        names = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
        return subprocess.run(["git", *names, *args], cwd=self.folder, env=env, check=True, capture_output=True,
                              text=True).stdout.strip()

    def commit(self, hours):
        self.git("commit", "-q", "--allow-empty", "-m", f"at {hours}", at=hours * HOUR)
        return self.git("rev-parse", "HEAD")

    def since(self):
        run = subprocess.run([SCRIPT], cwd=self.folder, check=True, capture_output=True, text=True)
        return run.stdout.strip()


class ChangedSinceTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.at = Repository(folder.name)

    def test_on_main_the_last_day(self):
        self.at.commit(0)
        before = self.at.commit(9)
        for hours in (11, 20, 34):
            tip = self.at.commit(hours)
        self.at.git("update-ref", "refs/remotes/origin/main", tip)
        self.assertEqual(self.at.since(), before)

    def test_in_a_short_history_all_of_it(self):
        first = self.at.commit(0)
        self.at.commit(1)
        self.assertEqual(self.at.since(), first)

    def test_of_a_branch_what_it_adds(self):
        self.at.commit(0)
        left = self.at.commit(1)
        self.at.git("checkout", "-q", "-b", "work")
        for hours in (2, 3, 90):
            self.at.commit(hours)
        self.at.git("checkout", "-q", "main")
        self.at.git("update-ref", "refs/remotes/origin/main", self.at.commit(91))
        self.at.git("checkout", "-q", "work")
        self.assertEqual(self.at.since(), left)

    def test_in_a_shallow_clone_what_is_there(self):
        self.at.commit(0)
        first = self.at.commit(50)
        self.at.commit(51)
        with tempfile.TemporaryDirectory() as folder:
            self.at.git("clone", "-q", "--depth", "2", "file://" + self.at.folder, folder)
            clone = Repository.__new__(Repository)
            clone.folder = folder
            self.assertEqual(clone.since(), first)


if __name__ == "__main__":
    unittest.main()
