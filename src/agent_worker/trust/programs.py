"""What is known of programs that commands name: only tables, by name. What is not in them is not known.

Above: command_reach.py, which takes a program that is not known for one that may run anything.
"""

from __future__ import annotations

from agent_worker.core.later import pattern


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


#: None of their arguments makes them run anything.
HARMLESS = _names(
    """
    : [ test true false exit return break continue shift set unset wait kill umask ulimit times jobs read getopts
    local echo printf cat tac rev head tail wc nl ls tree stat file du df pwd basename dirname realpath readlink
    curl date sleep seq tr cut paste comm join fold fmt column expr od hexdump strings shuf numfmt md5sum sha1sum
    sha256sum sha512sum cksum b2sum diff cmp jq grep egrep fgrep sort which type printenv uname whoami id hostname
    nproc arch tty uuidgen mktemp mkdir rmdir rm touch chmod sync base64 zcat dirs popd
    """
)

#: They write files that they are told, and run none.
WRITERS = _names(
    """
    tee cp mv ln dd truncate gzip gunzip bzip2 bunzip2 xz unxz zstd unzstd unzip patch uniq xxd
    """
)

#: Beginnings of arguments with which one of them runs another program.
RUNS_WITH = {"sort": ("--co",)}
#: Arguments with which one of them writes a file: its letters, also among others (`-so`), and beginnings of long ones.
WRITES_WITH = {
    "sort": pattern(r"-[^-]*o|--o"),
    "shuf": pattern(r"-[^-]*o|--o"),
    "tree": pattern(r"-[^-]*o"),
    "curl": pattern(r"-[^-]*[oOJKDc]|--(?:o|remote|config|cookie-jar|dump|trace|etag-s|hsts|alt-svc|stderr|libcurl)"),
}

#: Commands that run the command behind them: their options that take a value, those that take none, and how many words
#: stand before it.
PREFIXES: dict[str, tuple[frozenset[str], frozenset[str], int]] = {
    name: (_names(options), _names(flags), before)
    for name, options, flags, before in (
        ("env", "-u --unset -C --chdir -S --split-string", "- -i --ignore-environment -0 --null -v --debug", 0),
        ("nice", "-n --adjustment", "", 0),
        ("ionice", "-c -n --class --classdata", "-t --ignore", 0),
        ("timeout", "-k -s --kill-after --signal", "--foreground --preserve-status -v --verbose", 1),
        ("time", "-f -o --format --output", "-p --portability -v --verbose -a --append -q --quiet", 0),
        ("nohup", "", "", 0),
        ("setsid", "", "-c --ctty -f --fork -w --wait", 0),
        ("stdbuf", "-i -o -e --input --output --error", "", 0),
        ("sudo", "-u -g -C -D -h -p -U --user --group --chdir", "-E -H -n -S -b -k --preserve-env", 0),
        ("doas", "-u -C", "-n", 0),
        ("command", "", "-p -v -V", 0),
        ("builtin", "", "", 0),
        ("exec", "-a", "-c -l", 0),
        ("flock", "-w -E --timeout", "-n -x -e -s -u -o -F --nonblock --exclusive --shared --unlock --close -c", 1),
        ("chronic", "", "-v -e", 0),
        ("unbuffer", "", "-p", 0),
        ("caffeinate", "-t -w", "-d -i -m -s -u", 0),
        (
            "xargs",
            "-I -n -P -L -d -a -E -s --max-args --max-procs --max-lines --max-chars --delimiter --arg-file --replace",
            "-0 --null -r --no-run-if-empty -t --verbose -x --exit -i -o",
            0,
        ),
        ("parallel", "-j --jobs", "-k --keep-order --bar -0 --null", 0),
        ("watch", "-n --interval", "-d -t -b -e -g -c -x", 0),
        ("strace", "-o -e -p", "-f -ff -q -qq -c -v -y -T -t -tt", 0),
        ("ltrace", "-o -e", "-f -c", 0),
        ("busybox", "", "", 0),
    )
}
#: These run the command behind them in surroundings that the project's files describe.
RUNNERS = {
    "uv": ("run", "tool"),
    "poetry": ("run",),
    "pipenv": ("run",),
    "pdm": ("run",),
    "hatch": ("run",),
    "rye": ("run",),
    "conda": ("run",),
    "bundle": ("exec",),
    "npm": ("exec", "x"),
    "pnpm": ("exec", "dlx"),
    "yarn": ("exec", "dlx"),
    "bun": ("x",),
    "mise": ("exec", "x"),
    "nix": ("run", "develop"),
    "direnv": ("exec",),
    "dotenv": ("run",),
    "npx": (),
    "bunx": (),
    "uvx": (),
    "pipx": ("run",),
    "xvfb-run": (),
    "entr": (),
}

#: Runners of packages from elsewhere, which take one that lies in the project first.
PACKAGES = frozenset({"npx", "bunx", "pnpx", "uvx", "pipx"})

SHELLS = frozenset({"sh", "bash", "dash", "ash", "zsh", "ksh", "mksh", "rbash"})
SHELL_OPTIONS = frozenset({"-o", "+o", "-O", "+O", "--rcfile", "--init-file"})  #: that take a value

#: They run the first file they are given, whatever it is called.
_INTERPRETERS = pattern(
    r"(?:python|pypy|node|nodejs|deno|bun|ruby|jruby|perl|php|lua|luajit|Rscript|tclsh|wish|expect|guile|julia|elixir"
    r"|groovy|java|ts-node|tsx|pwsh|osascript|swift|scala|awk|gawk|mawk|nawk|sed|m4|bc|fish|csh|tcsh|nu|xonsh)"
    r"w?[0-9.]*"
)

_NODE = (
    "package.json package-lock.json yarn.lock pnpm-lock.yaml pnpm-workspace.yaml .npmrc .yarnrc .yarnrc.yml"
    " .pnpmfile.cjs bunfig.toml deno.json deno.jsonc"
)
_NODE_TOOLS = f"{_NODE} *.config.js *.config.mjs *.config.cjs *.config.ts *.config.mts .eslintrc* .babelrc*"
_PYTHON = (
    "pyproject.toml setup.py setup.cfg tox.ini noxfile.py pytest.ini conftest.py tests/conftest.py tasks.py dodo.py"
    " manage.py Pipfile requirements*.txt uv.toml uv.lock poetry.lock .pre-commit-config.yaml mypy.ini .coveragerc"
)
_DOCKER = "Dockerfile Containerfile docker-compose.yml docker-compose.yaml compose.yml compose.yaml docker-bake.hcl"
_RUBY = "Gemfile Gemfile.lock Rakefile rakefile Rakefile.rb *.gemspec .rspec"
_JVM = (
    "build.gradle build.gradle.kts settings.gradle settings.gradle.kts gradle.properties"
    " gradle/wrapper/gradle-wrapper.properties gradlew pom.xml .mvn/extensions.xml .mvn/jvm.config mvnw build.xml"
    " build.sbt"
)
_CMAKE = "CMakeLists.txt CMakePresets.json build.ninja meson.build configure Makefile"

#: Tools that run what the project's files say, each with the files that say it.
BUILD: dict[str, tuple[str, ...]] = {
    name: tuple(files.split())
    for names, files in (
        ("make gmake bmake", "GNUmakefile makefile Makefile BSDmakefile *.mk"),
        ("npm npx yarn pnpm pnpx bun bunx corepack node deno", _NODE),
        (
            "jest vitest webpack vite tsc eslint prettier rollup esbuild next nuxt ng turbo nx lerna playwright cypress"
            " mocha ava gulp grunt tsx ts-node",
            f"{_NODE_TOOLS} gulpfile.* Gruntfile.* .mocharc.* turbo.json nx.json lerna.json",
        ),
        (
            "pytest py.test tox nox poe invoke inv doit hatch pdm poetry uv uvx pipenv pip pip3 pipx rye pre-commit"
            " mypy pylint flake8 coverage sphinx-build mkdocs alembic behave robot build django-admin ruff black",
            _PYTHON,
        ),
        ("just", "justfile .justfile Justfile"),
        ("task go-task", "Taskfile.yml Taskfile.yaml taskfile.yml Taskfile.dist.yml"),
        ("rake bundle gem rspec ruby", _RUBY),
        ("cargo rustup", "Cargo.toml Cargo.lock build.rs .cargo/config.toml .cargo/config rust-toolchain.toml"),
        ("go", "go.mod go.sum go.work"),
        ("cmake ctest ninja meson scons waf configure", f"{_CMAKE} SConstruct wscript"),
        ("gradle gradlew mvn mvnw ant sbt", _JVM),
        ("docker docker-compose podman podman-compose buildah", _DOCKER),
        ("terraform tofu", "*.tf"),
        ("ansible-playbook ansible", "ansible.cfg"),
        ("bazel bazelisk buck2", "WORKSPACE WORKSPACE.bazel MODULE.bazel BUILD BUILD.bazel .bazelrc"),
        ("vagrant", "Vagrantfile"),
        ("dotnet msbuild", "*.csproj *.fsproj *.sln Directory.Build.props Directory.Build.targets global.json"),
        ("mix", "mix.exs"),
        ("composer", "composer.json"),
        ("mise asdf", "mise.toml .mise.toml .tool-versions"),
        ("direnv", ".envrc"),
        ("nix nix-shell nix-build", "flake.nix default.nix shell.nix"),
        ("earthly", "Earthfile"),
        ("lefthook", "lefthook.yml .lefthook.yml"),
        ("overcommit", ".overcommit.yml"),
        ("swift", "Package.swift"),
        ("zig", "build.zig"),
        ("stack cabal", "stack.yaml cabal.project *.cabal"),
        ("vim nvim ex", ".vimrc .exrc .nvim.lua"),
        ("emacs", ".dir-locals.el"),
        ("gdb lldb", ".gdbinit .lldbinit"),
    )
    for name in names.split()
}

#: What Git does without running hooks, filters or anything else that lies among the files of the working tree.
GIT_READS = _names(
    """
    log show rev-parse rev-list cat-file ls-tree merge-base describe shortlog name-rev for-each-ref show-ref
    diff-tree version var count-objects
    """
)
GIT_LOOKS = frozenset({"diff", "status", "diff-index", "diff-files"})  #: harmless while they leave submodules alone
#: Beginnings of options with which Git looks into submodules all the same, or runs a program on what it shows.
GIT_ENTERS = (
    "--dirty",
    "--broken",
    "--submodule",
    "--ignore-submodules=n",
    "--ignore-submodules=u",
    "--filters",
    "--textconv",
    "--ext-diff",
)
GIT_PLAIN_VALUE = pattern(r"(?:true|false|no|yes|off|on|auto|never|always|all|none|cat|/dev/null|\d*)")

#: Endings of files that are run, not only read.
SCRIPTS = _names(
    """
    .sh .bash .zsh .ksh .fish .py .pyw .js .mjs .cjs .ts .mts .cts .jsx .tsx .rb .pl .pm .php .lua .r .R .tcl .awk
    .sed .mk .ps1 .groovy .gradle .jl .exs .ex .jar .cmake .bat .cmd .exe
    """
)


def is_interpreter(name: str) -> bool:
    return _INTERPRETERS.fullmatch(name) is not None
