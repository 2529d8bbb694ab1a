// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Tools
import ArgumentParser
import LarderEngine

/// The options of every command of a queue: the store and the form of the answer.
///
/// A queue has to survive a crash of the machine, so its default store is a durable one, apart from the default
/// store of the other commands, which is a cache.
struct QueueStoreArguments: ParsableArguments {
  @Option(
    name: .long,
    help: ArgumentHelp(
      "The store's directory. (default: \(StoreLocation.queuesDescription))", valueName: "path"),
    completion: .directory)
  var store: String?

  @Option(
    name: .long,
    help: ArgumentHelp(
      """
      cache, durable, durableStrict or relaxed: the durability of a store that this command creates, else durable. \
      An existing store keeps its own, and is refused if this option names another.
      """, valueName: "kind"))
  var durability: Durability?

  @OptionGroup var answer: AnswerArguments

  /// Whether answers and errors are JSON.
  var json: Bool { answer.json }

  /// The options of a command with the default store of queues.
  private var place: StoreArguments {
    arguments(at: store ?? (StoreLocation.isNamed ? nil : StoreLocation.queues))
  }

  private func arguments(at path: String?) -> StoreArguments {
    var result = StoreArguments()
    result.store = path
    result.durability = durability
    result.answer = answer
    return result
  }

  /// Opens the store, and creates a durable one if it is missing.
  func openOrCreate() throws -> SharedStore { try place.openOrCreate(.durable) }

  /// Opens a store that exists, to take elements of a queue.
  ///
  /// - Throws: ``ToolError`` with exit status 2 if the store is missing.
  func openExisting(for queue: String) throws -> SharedStore {
    try explaining(queue) { try place.openExisting() }
  }

  /// Opens a store that exists, to show a queue.
  ///
  /// - Throws: ``ToolError`` with exit status 2 if the store is missing.
  func openForReading(of queue: String) throws -> SharedStore {
    try explaining(queue) { try place.openForReading() }
  }

  private func explaining(_ queue: String, _ open: () throws -> SharedStore) throws -> SharedStore {
    do { return try open() } catch let error as ToolError where error.code == "noStore" {
      throw ToolError(
        error.code,
        "There is no store at \(place.path). `larder queue push \(queue) ELEMENT` creates it, or name another "
          + "directory with --store."
          + hint(for: queue), exit: error.exit)
    }
  }

  /// Makes the store the default one of the commands that this process starts.
  func export(_ store: SharedStore) { place.export(store) }

  /// Returns a sentence about elements of a queue in the default store of the other commands, which a program may
  /// use; empty without any, or if the command line names a store.
  func hint(for queue: String) -> String {
    guard store == nil, !StoreLocation.isNamed else { return "" }
    // A store that cannot be read has no elements to name.
    var other = arguments(at: SharedStore.defaultPath)
    other.durability = nil
    guard let store = try? other.openForReading() else { return "" }
    defer { store.close() }
    let deque = StoredDeque(store, name: queue, maximumAttempts: .max)
    guard let (state, failed) = try? deque.states(),
      state.waitingCount + state.claims.count + failed.waitingCount > 0
    else { return "" }
    return " The store \(store.path) has a queue of this name: name it with --store."
  }
}
#endif
