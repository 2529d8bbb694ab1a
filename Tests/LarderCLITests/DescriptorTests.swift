// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Tools
import LarderTesting
import Testing

@Suite(.timeLimit(.minutes(60)))
struct DescriptorTests {
  @Test
  func `Without descriptors the tool ends with a sentence and its own code, never by a signal`()
    throws
  {
    try withTool { tool in
      _ = try tool.output("set", "k", "v")
      let commands = [
        ["stat"], ["get", "k"], ["list"], ["set", "k", "v"], ["verify"], ["objects"],
        ["memo", "--", "/bin/echo", "done"], ["warm", "--", "/bin/echo", "done"],
      ]
      // Descriptors that the test runner left open do not count.
      let shell = """
        for file in /dev/fd/*; do
          number=${file##*/}
          if [ "$number" -gt 2 ]; then eval "exec $number>&-"; fi
        done
        ulimit -n "$LIMIT"
        exec "$0" "$@"
        """
      var (failures, successes) = (0, 0)
      for limit in 3...24 {
        for words in commands {
          let command = [words[0], "--store", tool.store] + words.dropFirst()
          let outcome = try ChildProcess.run(
            "/bin/bash", ["-c", shell, tool.path] + command,
            environment: ["LIMIT": "\(limit)"])
          let said = "\(limit) \(words): \(outcome.status) \(outcome.standardError)"
          guard case .exited(let code) = outcome.status else {
            Issue.record("\(said)")
            continue
          }
          // The system's loader found no descriptor for a library.
          if code == 127, outcome.standardError.contains("shared libraries") { continue }
          if code == 0 {
            successes += 1
            // A command that runs without the store reports why.
            if words[0] == "memo" { #expect(outcome.output.contains("done"), "\(said)") }
          } else {
            failures += 1
            #expect(code == 70, "\(said)")
            #expect(outcome.standardError.contains("Too many open files"), "\(said)")
            #expect(outcome.standardError.contains("ulimit -n"), "\(said)")
          }
        }
      }
      #expect(failures > 20 && successes > 20)
    }
  }
}
#endif
