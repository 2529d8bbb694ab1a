// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Tools
import ArgumentParser

/// `larder completions`: the completion script of a shell.
struct CompletionsCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "completions",
    abstract: "Print the completion script of a shell.",
    discussion: """
      EXAMPLES
        larder completions bash > ~/.local/share/bash-completion/completions/larder
        larder completions zsh > ~/.zfunc/_larder        # a directory of $fpath
        larder completions fish > ~/.config/fish/completions/larder.fish
      """)

  @Argument(help: ArgumentHelp("bash, zsh or fish.", valueName: "shell"))
  var shell: Shell

  enum Shell: String, ExpressibleByArgument, CaseIterable { case bash, zsh, fish }

  func run() {
    let wanted: CompletionShell =
      switch shell {
      case .bash: .bash
      case .zsh: .zsh
      case .fish: .fish
      }
    Console.line(LarderTool.completionScript(for: wanted))
  }
}
#endif
