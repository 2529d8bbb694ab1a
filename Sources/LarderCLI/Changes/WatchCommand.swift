// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Tools
import ArgumentParser
import LarderCoding
import LarderEngine

/// `larder watch`: prints changes as processes commit them.
struct WatchCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "watch",
    abstract: "Print the changes of entries as processes commit them.",
    discussion: """
      One line for each change: kind, key with the namespace before it, process, and the namespace \
      if it has a name; of a key of more than 256 bytes the beginning and "…", and "keyCut" with \
      --json. Every commit is there, in order; \
      changes that are no longer known are a line that begins with "gap". The first use begins the \
      change log of the store, which costs each later write a little; --stop ends it.

      With --since, the output begins after a cursor of an earlier run with --json.

      EXAMPLES
        larder watch
        larder watch user/17
        larder watch --namespace thumbnails --json | jq -r .key
        larder watch --since "$(cat cursor)" --count 100
        larder watch --stop
      """)

  @Argument(help: ArgumentHelp("Only the key with this text. (default: all)", valueName: "key"))
  var key: String?

  @Option(
    name: .shortAndLong,
    help: ArgumentHelp("Only this namespace. (default: all)", valueName: "name")
  )
  var namespace: String?

  @Option(
    name: .long, help: ArgumentHelp("Begin after this place. (default: now)", valueName: "cursor"))
  var since: String?

  @Option(name: .long, help: ArgumentHelp("End after this number of lines.", valueName: "number"))
  var count: Int?

  @Flag(name: .long, help: "End the change log of the store, for all processes.")
  var stop = false

  @OptionGroup var arguments: StoreArguments

  func validate() throws {
    if stop, key != nil || namespace != nil || since != nil || count != nil {
      throw ValidationError("--stop takes neither a key nor other options.")
    }
  }

  func run() async throws {
    try await Console.reporting(json: arguments.json) {
      if stop {
        let store = try openForLog()
        defer { store.close() }
        return try store.setChangeLog(commits: nil)
      }
      let cursor = try since.map { text in
        guard let cursor = try? ChangeCursor(text) else {
          throw ToolError.usage(
            "--since is no cursor. Pass one that `larder watch --json` printed, all of it.")
        }
        return cursor
      }
      var left = count ?? .max
      guard left > 0 else { return }
      let (store, changes) = try follow(from: cursor ?? .now)
      defer { store.close() }
      var before = changes.start
      for try await event in changes {
        for line in lines(of: event, after: before) {
          print(line)
          left -= 1
          if left == 0 { return }
        }
        before = event.cursor
      }
    }
  }

  /// Opens the store, and begins its change log if it has none.
  private func follow(from cursor: ChangeCursor) throws -> (SharedStore, StoreChanges) {
    do {
      let store = try arguments.openForReading(awaitsOthers: true)
      do { return (store, try store.changes(since: cursor)) } catch {
        store.close()
        throw error
      }
    } catch let error as StoreError where [.readsOnly, .needsRecovery].contains(error.code) {
      let store = try openForLog()
      return (store, try store.changes(since: cursor))
    }
  }

  /// Opens the store to write its change log only: a damaged cache is an error here, too. A store that needs a
  /// recovery gets it, as by any program that writes.
  private func openForLog() throws -> SharedStore {
    do {
      try arguments.openForReading().close()
    } catch let error as StoreError where error.code == .needsRecovery {}
    return try arguments.openExisting()
  }

  private struct Line {
    var kind: String
    var change: StoreChange?
    var commits: ClosedRange<UInt64>
    var cursor: ChangeCursor
  }

  /// Returns the lines of an event. Within a commit, only the last one has the place after it, so that
  /// a later run repeats changes rather than missing them.
  private func lines(of event: ChangeEvent, after before: ChangeCursor) -> [Line] {
    switch event {
    case .gap(let from, let to, let cursor):
      return [Line(kind: "gap", commits: from...to, cursor: cursor)]
    case .commit(let changes, let cursor):
      let wanted = changes.filter(isWanted)
      return wanted.enumerated().map { index, change in
        Line(
          kind: change.kind.description, change: change,
          commits: change.commitVersion...change.commitVersion,
          cursor: index == wanted.count - 1 ? cursor : before)
      }
    }
  }

  private func isWanted(_ change: StoreChange) -> Bool {
    if let namespace, change.namespace != nil, !change.isIn(namespace) { return false }
    let isOfMany = [.cleared, .untagged].contains(change.kind)
    return isOfMany || key.map { change.concerns(keyText: $0) } ?? true
  }

  private func print(_ line: Line) {
    guard arguments.json else {
      guard let change = line.change else {
        return Console.line("gap: the changes of commits \(line.commits) are not known")
      }
      let place = (change.namespace ?? "").isEmpty ? "" : "\(change.namespace!)/"
      let text = TextLayout.cleaned(place + change.keyText)
      // The key a/b and the key b of the namespace a are different lines.
      let space = place.isEmpty ? "" : "\tnamespace \(TextLayout.cleaned(change.namespace!))"
      return Console.line("\(line.kind)\t\(text)\tprocess \(change.pid)\(space)")
    }
    var fields: [(String, CBORValue)] = [("kind", .text(line.kind))]
    if let change = line.change {
      fields += [
        ("key", .text(change.keyText)),
        ("keyType", CBORValue(change.encodedKey.map { KeyKind.shown($0).kind.description })),
        ("keyCut", .boolean(change.isKeyCut)),
        ("namespace", change.namespace.map { .text($0) } ?? .null),
        ("pid", CBORValue(Int(change.pid))),
      ]
    }
    fields += [
      ("from", .unsigned(line.commits.lowerBound)), ("to", .unsigned(line.commits.upperBound)),
      ("cursor", .text(line.cursor.description)),
    ]
    Console.json(.object(fields), pretty: false)
  }
}
#endif
