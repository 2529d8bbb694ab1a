// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import Synchronization

// WHAT A REFERENCE HOLDS
//
// The struct of a relationship is one reference to a box, so that types may contain each other.
// A box either was assigned, and then holds the objects from the start; or it was decoded, holds ids,
// and loads the objects when somebody first looks. A box never goes back: what it once showed stays.
// Assigning makes another box, so values keep being values.
//
// An assigned box remembers which objects were loaded before. `car.parts.append(part)` reads all
// parts and assigns them all; only those that differ from what was read are the user's change, and
// only they are saved with the car.
//
// A box that could not load its objects remembers the error and stays as it is. A box that is assigned in
// its place remembers it as well and cannot be saved: the user has never seen which objects there are.
//
// Chains of boxes may be ten thousands long: they are taken down by a list, not by recursion.

/// The objects of one relationship of one value.
final class ReferenceBox<Target: Storable>: Sendable {
  /// What is known of the objects.
  struct Content: Sendable {
    var objects: [Target]
    /// The ids whose objects are gone.
    var missing: [String] = []
    /// What was loaded before the user assigned the objects, by id.
    var baseline: [String: Target] = [:]
  }

  /// The ids referred to, in order.
  let ids: [String]
  /// Where to load from; `nil`: the objects were assigned.
  let context: ReferenceLoader?
  private let content: Mutex<Content?>
  /// Why the objects could not be loaded when the property was last looked at; of an assigned box, why
  /// those could not that it replaces.
  private let failure: Mutex<(any Error)?>

  init(
    assigned objects: [Target], baseline: [String: Target] = [:], after failure: (any Error)? = nil
  ) {
    ids = objects.map { ObjectTypeDescriptor<Target>.text(of: $0.id) }
    context = nil
    self.failure = Mutex(failure)
    content = Mutex(Content(objects: objects, baseline: baseline))
  }

  init(ids: [String], context: ReferenceLoader) {
    self.ids = ids
    self.context = context
    failure = Mutex(nil)
    content = Mutex(ids.isEmpty ? Content(objects: []) : nil)
  }

  deinit {
    guard content.withLock({ $0?.objects.isEmpty == false }) else { return }
    // Moved from here to the list: nothing may be left for the end of this function to destroy.
    IterativeDeallocator.drop { content.withLock { $0.take() } }
  }

  var isAssigned: Bool { context == nil }
  var isLoaded: Bool { content.withLock { $0 != nil } }

  /// The objects; loaded now, if nobody has looked yet.
  func load() throws -> Content {
    if let known = content.withLock({ $0 }) { return known }
    guard let context else { return Content(objects: []) }
    // Before anything is read: who sees the mark not set shares only what is read later.
    context.markLoaded()
    let (objects, missing) = try context.objects(Target.self, ids)
    return fill(objects, missing)
  }

  /// The objects as far as they can be loaded; what goes wrong is reported to the store.
  func objects() -> [Target] {
    do {
      return try load().objects
    } catch {
      context?.report(error)
      failure.withLock { $0 = error }
      guard let context, error is ObjectError, ids.count > 1 else { return [] }
      // One of them may be the reason.
      return ids.flatMap { id in (try? context.objects(Target.self, [id]).objects) ?? [] }
    }
  }

  /// Why objects could not be loaded.
  var loadError: (any Error)? {
    isAssigned || !isLoaded ? failure.withLock { $0 } : nil
  }

  /// Before the ids are stored.
  ///
  /// - Throws: ``ObjectError/Code/notLoaded`` when the box replaces one whose objects could not be loaded.
  func requireKnown(_ codingPath: [any CodingKey]) throws {
    guard isAssigned, let error = failure.withLock({ $0 }) else { return }
    let path = codingPath.map(\.stringValue).joined(separator: ".")
    throw ObjectError(
      .notLoaded, type: Target.storedName,
      "\"\(path)\" was assigned after its objects could not be loaded, so saving it would drop "
        + "references that the program has not seen. Fetch the parent again when they can be loaded, or "
        + "create it anew. Cause: \(error)", ids: (error as? ObjectError)?.ids ?? [])
  }

  /// Files what was loaded, unless somebody was quicker.
  @discardableResult
  func fill(_ objects: [Target], _ missing: [String]) -> Content {
    content.withLock { content in
      if let content { return content }
      let filled = Content(objects: objects, missing: missing)
      content = filled
      return filled
    }
  }

  /// The box for other objects in the place of these.
  func replaced(by objects: [Target]) -> ReferenceBox {
    let known = content.withLock { $0 }
    guard let known else {
      return ReferenceBox(assigned: objects, after: failure.withLock { $0 })
    }
    if isAssigned {
      return ReferenceBox(
        assigned: objects, baseline: known.baseline, after: failure.withLock { $0 })
    }
    var baseline: [String: Target] = [:]
    for object in known.objects {
      baseline[ObjectTypeDescriptor<Target>.text(of: object.id)] = object
    }
    return ReferenceBox(assigned: objects, baseline: baseline)
  }

  /// The assigned objects, and what was loaded of them before, by id.
  var changes: Content? { isAssigned ? content.withLock { $0 } : nil }
}

/// Lets go of values that contain each other to any depth, one after the other.
enum IterativeDeallocator {
  private struct State {
    var isBusy = false
    var waiting: [any Sendable] = []
  }

  private static let state = Mutex(State())

  static func drop(_ take: () -> (any Sendable)?) {
    let isFirst = state.withLock { state in
      if let value = take() { state.waiting.append(value) }
      defer { state.isBusy = true }
      return !state.isBusy
    }
    guard isFirst else { return }
    while dropOne() {}
  }

  private static func dropOne() -> Bool {
    // Destroyed when this function ends, outside of the lock.
    let next = state.withLock { state in
      let next = state.waiting.popLast()
      if next == nil { state.isBusy = false }
      return next
    }
    return next != nil
  }
}
