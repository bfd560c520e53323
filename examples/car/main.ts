/** `npm run car`: play a drive in a car that sounds, and print what happened and how loud it was. */
import { Car } from "./car.ts";
import { playDrive } from "./drive.ts";

await using car = await Car.open();
await playDrive(car, (line) => console.log(line));
