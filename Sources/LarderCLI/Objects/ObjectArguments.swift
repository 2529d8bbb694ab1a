// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Tools
import ArgumentParser
import LarderCoding
import LarderDynamic
import LarderEngine
internal import LarderObjectEngine

/// The type argument of object commands.
struct TypeArgument: ParsableArguments {
  @Argument(
    help: ArgumentHelp(
      "The stored name (App.Car), or its last part (Car) if no other type ends in it.",
      valueName: "type"))
  var type: String
}

/// The operations that object commands share.
enum ObjectCommandSupport {
  /// Opens the objects of a store for a command that only reads. Omitted objects are printed to
  /// standard error.
  static func open(_ arguments: StoreArguments) throws -> DynamicObjects {
    DynamicObjects(try arguments.openForReading()) { Console.printError("larder: \($0)") }
  }

  /// Opens the objects of a store for an import. A missing store is created with the durability of
  /// the exported one.
  static func open(
    _ arguments: StoreArguments, importing header: ObjectSchemaHeader?
  ) throws -> DynamicObjects {
    let durability = header?.durability.flatMap { Durability(rawValue: $0) } ?? .durable
    let store = try header == nil ? arguments.openExisting() : arguments.openOrCreate(durability)
    return DynamicObjects(store) { Console.printError("larder: \($0)") }
  }

  /// Returns a type.
  ///
  /// - Throws: ``ToolError`` with exit status 1 if it is missing or ambiguous.
  static func type(_ name: String, in objects: DynamicObjects) throws -> ObjectTypeRecord {
    do {
      return try objects.type(named: name)
    } catch let error as DynamicObjectError {
      throw ToolError(error.code.rawValue, error.message, exit: Exit.negative)
    }
  }

  /// Parses the text of a query. A parse error is a usage error.
  static func reading<R>(_ what: String, _ body: () throws -> R) throws -> R {
    do {
      return try body()
    } catch let error as QueryTextError {
      throw ToolError(
        error.code.rawValue, "\(what), \(error.description)", exit: Exit.usage,
        details: [("column", CBORValue(error.column))])
    }
  }
}
#endif
